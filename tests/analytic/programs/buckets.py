"""DistributedDataParallel over equal layers, every gradient a bucket of its own.

Over all ranks, where a bucket's all-reduce takes longer than a layer's backward pass, and over the
ranks of a node, where it is shorter.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

RANK = int(os.environ["RANK"])
DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
WIDTH = 512
LAYERS = 4
BUCKET_MIB = WIDTH * WIDTH * 2 / (1 << 20)
WARM_UP = 2  # PyTorch forms its buckets anew after the first iteration
ITERATIONS = 3


def train(name: str, group: dist.ProcessGroup) -> None:
    layers = [
        nn.Linear(WIDTH, WIDTH, bias=False, device=DEVICE, dtype=torch.bfloat16)
        for _ in range(LAYERS)
    ]
    model = DistributedDataParallel(
        nn.Sequential(*layers),
        device_ids=[DEVICE.index],
        process_group=group,
        bucket_cap_mb=BUCKET_MIB,
        gradient_as_bucket_view=True,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    batch = torch.empty(WIDTH, WIDTH, dtype=torch.bfloat16, device=DEVICE)
    gradient = torch.empty_like(batch)
    for iteration in range(WARM_UP + ITERATIONS):
        torch.cuda.synchronize()
        with torch.cuda.nvtx.range(name if iteration >= WARM_UP else "warm-up"):
            model(batch).backward(gradient)
            optimizer.step()
            optimizer.zero_grad()
            torch.cuda.synchronize()


def main() -> None:
    """Both."""
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl", device_id=DEVICE)
    nodes = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    train("world", dist.group.WORLD)
    dist.barrier()
    train("node", nodes[RANK // 2])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
