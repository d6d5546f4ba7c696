"""What a folded run refuses: ranks that differ, a group across the fold, sends, gathers.

Ranks differ in their work (`uneven`), in shapes (`shapes`), in what they do with their own data
(`branch`), in a collective that one leaves out (`skips`).
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist


def step(what: str) -> None:
    """Three optimizer steps, in which the last rank does something else."""
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    weight = torch.ones(1 << 20, device=device, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    rank = dist.get_rank()
    is_last = rank == dist.get_world_size() - 1
    for _ in range(3):
        used = weight[: 1 << 19] if what == "shapes" and is_last else weight
        loss = (used * used).sum()
        if what == "uneven" and is_last:
            loss = loss + weight.exp().sum()
        if what == "branch" and torch.tensor(rank, device=device).item() > 4:
            loss = loss * 2
        loss.backward()
        if not (what == "skips" and is_last):
            dist.all_reduce(weight.grad)
        optimizer.step()
        optimizer.zero_grad()


def main(what: str) -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("gloo" if "gloo" in what else "nccl")
    if what == "group":
        groups = [dist.new_group([rank, (rank + 5) % 8]) for rank in range(0, 8, 2)]
        for rank, group in zip(range(0, 8, 2), groups, strict=True):
            if dist.get_rank() in (rank, (rank + 5) % 8):
                dist.all_reduce(torch.ones(1 << 20, device="cuda"), group=group)
    elif what == "gather":  # at a rank that is absent
        gathered = [None] * dist.get_world_size() if dist.get_rank() == 7 else None
        dist.gather_object("mine", gathered, dst=7)
    elif what == "uneven-gloo":
        splits = [1, *[0] * 7]
        dist.all_to_all_single(torch.ones(1), torch.ones(1), splits, splits)
    elif what in ("send", "gloo"):
        value = torch.ones(1 << 20, device="cuda" if what == "send" else "cpu")
        if dist.get_rank() == 0:
            dist.send(value, dst=7)
        elif dist.get_rank() == 7:
            dist.recv(value, src=0)
    step(what)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
