"""Starts two workers by PyTorch's elastic agent, of which one fails at first: RESTARTS."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.launcher.api import LaunchConfig, elastic_launch


def train() -> None:
    attempt, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    ones = torch.ones(1, device=rank)
    dist.all_reduce(ones)
    assert ones.item() == 2
    print(f"attempt {attempt}", flush=True)
    dist.barrier()
    if attempt == "0" and rank == 1:
        raise ValueError("worker 1 fails once")
    dist.destroy_process_group()


if __name__ == "__main__":
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=2,
        run_id="workers",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:29517",
        max_restarts=int(sys.argv[1]),
    )
    elastic_launch(config, train)()
