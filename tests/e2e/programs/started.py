"""Says where each rank is, by the variables of what started it, and what an all-reduce gives."""

from __future__ import annotations

import os
import socket
import sys

import torch
import torch.distributed as dist

NAMES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)


def main() -> None:
    if "fail" in sys.argv:
        sys.exit(9)
    names = next(names for names in NAMES if names[0] in os.environ)
    rank, ranks, local_rank = (int(os.environ[name]) for name in names)
    if "SLURM_JOB_NODELIST" in os.environ:
        first = os.environ["SLURM_JOB_NODELIST"].replace("[", "").partition("-")[0]
        os.environ.setdefault("MASTER_ADDR", first)
    os.environ.setdefault("MASTER_PORT", "29512")
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=device)
    ones = torch.ones(1, device=device)
    dist.all_reduce(ones)
    print(
        f"rank {rank} of {ranks}, {local_rank} on {socket.gethostname()}: {ones.item()} "
        f"{sys.argv[1:]} {os.environ.get('NOTE', '')} {os.getcwd()}",
        flush=True,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
