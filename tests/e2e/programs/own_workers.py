"""Starts its own workers: `own_workers.py HOW COUNT [fail]`, each on its GPU."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

WIDTH, BATCH, STEPS = 64, 8, 4


def train(rank: int, ranks: int, results: multiprocessing.Queue | None) -> None:
    assert "RANK" not in os.environ
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "29513"
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks)
    model = DistributedDataParallel(nn.Linear(WIDTH, WIDTH).to(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(STEPS):
        model(torch.randn(BATCH, WIDTH, device=rank)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    ones = torch.ones(1, device=rank)
    dist.all_reduce(ones)
    if results is not None:
        results.put((rank, ones.item()))
    dist.destroy_process_group()
    if "fail" in sys.argv and rank == 1:
        raise ValueError("worker 1 fails")


def main() -> None:
    how, count = sys.argv[1], int(sys.argv[2])
    print(f"{torch.cuda.device_count()} GPUs", flush=True)
    if how == "torch":
        multiprocessing.spawn(train, (count, None), nprocs=count)
    else:
        context = multiprocessing.get_context(how)
        results = context.Queue()
        workers = [context.Process(target=train, args=(i, count, results)) for i in range(count)]
        for worker in workers:
            worker.start()
        print(sorted(results.get() for _ in workers), flush=True)
        for worker in workers:
            worker.join()
        print([worker.exitcode for worker in workers], flush=True)
    print("the program goes on", flush=True)


if __name__ == "__main__":
    main()
