"""Processes that use a GPU in unusual ways: `gpu_users.py WHAT`."""

from __future__ import annotations

import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch import multiprocessing


def use(rank: int, what: str) -> None:
    if what == "waits":
        wait_for_nobody(rank)
    if what == "shared" and rank == 1:  # beside its own GPU, while rank 0 uses it
        torch.ones(4, device=1).sum().item()
        torch.ones(4, device=0).sum().item()
        return
    torch.ones(4, device=0 if what in ("same", "joined") else rank).sum().item()
    if what == "killed" and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if what in ("killed", "same", "joined"):
        time.sleep(600)


def wait_for_nobody(rank: int) -> None:
    """Rank 0 waits for rank 1, which ends."""
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "29514"
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=2)
    both = torch.ones(1, device=rank)
    dist.all_reduce(both)
    if rank == 0:
        dist.all_reduce(both)
        both.item()


def main() -> None:
    what = sys.argv[1]
    if what == "chosen":
        torch.cuda.set_device(0)
        print(torch.cuda.mem_get_info()[0] > 0, flush=True)
    if what == "alone":
        print(sum(torch.ones(4, device=one).sum().item() for one in range(2)), flush=True)
    elif what == "forks":
        for rank in range(2):
            pid = os.fork()
            if pid == 0:
                use(rank, what)
                return
            print(f"child {os.waitpid(pid, 0)[1]}", flush=True)
    elif what == "joined":  # nobody asks how they have ended
        context = multiprocessing.get_context("spawn")
        workers = [context.Process(target=use, args=(rank, what)) for rank in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    elif what != "nothing":
        for _ in range(3 if what == "again" else 1):
            multiprocessing.spawn(use, (what,), nprocs=2)
        if what in ("again", "chosen"):
            print(torch.ones(4, device=1).sum().item(), flush=True)
    print("the end", flush=True)


if __name__ == "__main__":
    main()
