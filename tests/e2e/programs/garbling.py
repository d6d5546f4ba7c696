"""Ranks communicate for ever, until rank 1 writes where it should not, as the argument says."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import torch
import torch.distributed as dist

from phantora_py._channel import TestRank

RUN = Path(os.environ["PHANTORA_RUN_DIR"])
CELLS_FROM_END = 4 << 20  # the ring lies at the end of a channel


def keep(channel: TestRank, field: str, value: int) -> None:
    """Again and again, because the field is written again for each call."""
    while True:
        channel.overwrite(field, value)


def garble(how: str, rank: int) -> None:
    path = RUN / f"rank-{rank}.channel"
    channel = TestRank(str(RUN), rank)
    if how == "head":
        channel.overwrite("head", 1 << 40)
    elif how == "reply slot":
        threading.Thread(
            target=keep, args=(channel, "slots[].recipient", 1 << 20), daemon=True
        ).start()
    elif how == "records":
        with path.open("r+b") as file:
            file.seek(-CELLS_FROM_END, os.SEEK_END)
            file.write(b"\xa5" * CELLS_FROM_END)
        channel.overwrite("head", 1 << 10)
    elif how == "channel cut":
        os.truncate(path, 0)
    elif how == "switchboard cut":
        os.truncate(RUN / "switchboard", 0)
    elif how == "dies writing":
        channel.overwrite("lock", 1)
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "never asked":
        channel.overwrite("waiting", 1)
        signal.pause()


def main() -> None:
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    tensor = torch.ones(1000, device="cuda")
    for step in range(1000):
        if step == 3 and rank == 1:
            garble(sys.argv[1], rank)
        dist.all_reduce(tensor)
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
