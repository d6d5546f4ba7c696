"""Linear layers under DDP with one optimizer after the other: `optimizers.py [NAME ...]`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Adafactor, Adam, AdamW, Muon, Optimizer

WIDTH, LAYERS, BATCH, STEPS = 1024, 4, 32, 4


def adamw_8bit(parameters: Iterable[nn.Parameter]) -> Optimizer:
    """Of torchao, whose step is compiled; not among those that run without being named."""
    optimizer: Optimizer = importlib.import_module("torchao.optim").AdamW8bit(parameters)
    return optimizer


OPTIMIZERS: dict[str, Callable[[Iterable[nn.Parameter]], Optimizer]] = {
    "sgd": partial(SGD, lr=0.1, momentum=0.9, nesterov=True),
    "sgd-fused": partial(SGD, lr=0.1, momentum=0.9, fused=True),
    "adam-for-loop": partial(Adam, foreach=False),
    "adam-foreach": partial(Adam, foreach=True, amsgrad=True),
    "adamw-foreach": partial(AdamW, foreach=True),
    "adamw-fused": partial(AdamW, fused=True),
    "adamw-capturable": partial(AdamW, capturable=True),
    "adafactor": partial(Adafactor, lr=0.01),
    "muon": partial(Muon, lr=0.01),
    "adamw-8bit": adamw_8bit,
    "zero": partial(ZeroRedundancyOptimizer, optimizer_class=AdamW, lr=0.01),
}


def train(name: str, device: torch.device) -> None:
    layers = [nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)]
    model = DistributedDataParallel(nn.Sequential(*layers).to(device), device_ids=[device.index])
    optimizer = OPTIMIZERS[name](model.parameters())
    inputs = torch.ones(BATCH, WIDTH, device=device)
    state_bytes = 0
    for step in range(STEPS):
        model(inputs).square().mean().backward()
        before_bytes = torch.cuda.memory_allocated()
        optimizer.step()
        if step == 0:
            state_bytes = torch.cuda.memory_allocated() - before_bytes
        optimizer.zero_grad()
    print(f"rank {dist.get_rank()}: {name} keeps {state_bytes} bytes", flush=True)


def main() -> None:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    for name in sys.argv[1:] or [name for name in OPTIMIZERS if name != "adamw-8bit"]:
        train(name, device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
