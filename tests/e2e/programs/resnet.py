"""A convolutional network of ResNet-50's shape (arXiv:1512.03385), a quarter as wide, under DDP.

Channels-last, SyncBatchNorm, AMP with a GradScaler: `resnet.py [--benchmark] [--images N] [--size
PIXELS]`.
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BLOCKS, WIDTH, CLASSES, STEPS = (3, 4, 6, 3), 16, 100, 4


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions beside a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            *convolution(inputs, width, 1),
            nn.ReLU(inplace=True),
            *convolution(width, width, 3, stride),
            nn.ReLU(inplace=True),
            *convolution(width, outputs, 1),
        )
        same = stride == 1 and inputs == outputs
        self.shortcut = (
            nn.Identity() if same else nn.Sequential(*convolution(inputs, outputs, 1, stride))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(self.body(x) + self.shortcut(x), inplace=True)


def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> tuple[nn.Module, ...]:
    """A convolution and its normalisation."""
    return (
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(outputs),
    )


def resnet() -> nn.Sequential:
    """Stem, four stages of bottlenecks, classifier."""
    layers: list[nn.Module] = [
        *convolution(3, WIDTH, 7, 2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, stride=2, padding=1),
    ]
    inputs = WIDTH
    for stage, blocks in enumerate(BLOCKS):
        width = WIDTH << stage
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, 2 if stage and not block else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--benchmark", action="store_true")
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--size", type=int, default=64)
    options = parser.parse_args()

    torch.backends.cudnn.benchmark = options.benchmark
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(resnet())
    model = model.to(device, memory_format=torch.channels_last)
    count = sum(parameter.numel() for parameter in model.parameters())
    replica = DistributedDataParallel(model, device_ids=[device.index])
    optimizer = torch.optim.SGD(replica.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS)
    scaler = torch.amp.GradScaler("cuda")

    for step in range(STEPS):
        images = torch.randn(options.images, 3, options.size, options.size).pin_memory()
        labels = torch.randint(0, CLASSES, (options.images,)).pin_memory()
        images = images.to(device, non_blocking=True, memory_format=torch.channels_last)
        labels = labels.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(replica(images), labels, label_smoothing=0.1)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(replica.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        if dist.get_rank() == 0:
            print(f"step {step}: loss {loss.item():.3f}, scale {scaler.get_scale()}", flush=True)
    print(f"rank {dist.get_rank()}: {count} parameters, scale {scaler.get_scale()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
