"""DDP over nodes with different GPUs: every rank tells what its own is."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH, LAYERS, BATCH, STEPS = 2048, 4, 4096, 3


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    properties = torch.cuda.get_device_properties(0)
    free, total = torch.cuda.mem_get_info()
    assert free < total == properties.total_memory
    print(
        f"rank {dist.get_rank()}: {properties.name}, {properties.multi_processor_count} "
        f"multiprocessors, capability {properties.major}.{properties.minor}, {total} bytes, "
        f"{torch.cuda.device_count()} of them"
    )
    torch.backends.cuda.matmul.allow_tf32 = True
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))).cuda()
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(BATCH, WIDTH, device="cuda")
    for _ in range(STEPS):
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
