"""Processes that use a GPU in unusual ways: `gpu_users.py WHAT`."""

from __future__ import annotations

import os
import signal
import sys
import time

import torch
from torch import multiprocessing


def use(rank: int, what: str) -> None:
    torch.ones(4, device=0 if what == "same" else rank).sum().item()
    if what == "killed" and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if what in ("killed", "same"):
        time.sleep(600)


def main() -> None:
    what = sys.argv[1]
    if what == "alone":
        print(sum(torch.ones(4, device=one).sum().item() for one in range(2)), flush=True)
    elif what == "forks":
        for rank in range(2):
            pid = os.fork()
            if pid == 0:
                use(rank, what)
                return
            print(f"child {os.waitpid(pid, 0)[1]}", flush=True)
    elif what != "nothing":
        for _ in range(2 if what == "again" else 1):
            multiprocessing.spawn(use, (what,), nprocs=2)
    print("the end", flush=True)


if __name__ == "__main__":
    main()
