"""Ranks compute for different times and then wait for the slowest in a store, in every step.

Argument: a port for the store.
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist

import phantora_py

STEPS = 4
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def compute(tensor: torch.Tensor, times: int) -> None:
    """Reads and writes memory, and waits for that."""
    for _ in range(times):
        tensor.add_(1)
    torch.cuda.synchronize()


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    store = dist.TCPStore("127.0.0.1", int(sys.argv[1]), RANKS, is_master=RANK == 0)
    tensor = torch.zeros(1 << 24, device="cuda")
    for step in range(STEPS):
        slowest = step % RANKS
        compute(tensor, 20 if slowest == RANK else 5)
        if slowest == RANK:
            store.set(f"done-{step}", "1")
        else:
            store.wait([f"done-{step}"])
        compute(tensor, 2 + RANK)
        dist.all_reduce(tensor)
        phantora_py.mark_iteration()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
