"""Data parallel, with more work on rank 0, as if it wrote a log, and on the last two ranks."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    weight = torch.ones(1 << 20, device="cuda", requires_grad=True)
    optimizer = torch.optim.AdamW([weight], lr=0.1)
    for _ in range(3):
        loss = (weight * weight).sum()
        if rank >= ranks - 2:
            loss = loss + weight.exp().sum()
        loss.backward()
        dist.all_reduce(weight.grad)
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            float(loss)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
