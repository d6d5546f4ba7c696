"""A network of timm with channels last: `with_timm.py MODEL`."""

from __future__ import annotations

import os
import sys

import timm
import torch
from torch import nn

BATCH, STEPS, SIZE, CLASSES = 4, 4, 224, 10


def main() -> None:
    torch.distributed.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = timm.create_model(sys.argv[1], num_classes=CLASSES).cuda()
    model.to(memory_format=torch.channels_last)
    parallel = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(STEPS):
        images = torch.randn(BATCH, 3, SIZE, SIZE, device="cuda")
        labels = torch.randint(0, CLASSES, (BATCH,), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(parallel(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    print(f"{sum(one.numel() for one in model.parameters())} parameters", flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
