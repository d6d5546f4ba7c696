"""Trains on two ranks. In its first attempts, as many as the argument says, rank 1 fails."""

from __future__ import annotations

import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 6


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    fails = rank == 1 and attempt < int(sys.argv[1])
    most = os.environ["TORCHELASTIC_MAX_RESTARTS"]
    model = DistributedDataParallel(nn.Linear(4096, 4096).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    torch.cuda.synchronize()
    start_s = time.perf_counter()
    for step in range(STEPS):
        model(torch.ones(512, 4096, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        if fails and step == 3:
            raise RuntimeError(f"attempt {attempt} fails")
        start_s, before_s = time.perf_counter(), start_s
        if rank == 0:
            took_ms = (start_s - before_s) * 1e3
            print(f"attempt {attempt} of {most} step {step} {took_ms:.4f} ms", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
