"""Ranks come to the store one by one, late: each polls for a lock of the one before it.

Every rank prints the virtual seconds until it has the lock, and until it has the store.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
POLL_S, HELD_S = 0.05, 2.0


def main(directory: Path, port: int, first: int) -> None:
    """`first`: the rank that holds the lock for long; the others poll for it."""
    start_s = time.perf_counter()
    with (directory / "lock").open("a") as file:
        if first != RANK:
            time.sleep(POLL_S)
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(POLL_S)
        if first == RANK:
            for _ in range(round(HELD_S / POLL_S)):
                time.sleep(POLL_S)
    locked_s = time.perf_counter() - start_s
    dist.TCPStore("localhost", port, RANKS, RANK == 0, timedelta(hours=1))
    told = {"rank": RANK, "locked": locked_s, "met": time.perf_counter() - start_s}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
