"""A small training by data parallelism, on whatever device there is.

observed.py DEVICE [TRACE]: with TRACE under PyTorch's own execution trace observer.
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.profiler import ExecutionTraceObserver

WIDTH, BATCH, STEPS = 64, 8, 3


def main() -> None:
    device = torch.device(sys.argv[1])
    observer = None
    if len(sys.argv) > 2:
        path = sys.argv[2].format(rank=os.environ["RANK"])
        observer = ExecutionTraceObserver().register_callback(path)
        observer.start()
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    torch.manual_seed(0)
    with device:
        model = nn.Sequential(
            *(nn.Embedding(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH)),
            *(nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)),
        )
        tokens = torch.zeros(BATCH, 16, dtype=torch.int64)
    wrapped = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False, fused=False)
    for _ in range(STEPS):
        output = wrapped(tokens)
        loss = nn.functional.cross_entropy(output.flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    if observer is not None:
        observer.stop()
        observer.unregister_callback()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
