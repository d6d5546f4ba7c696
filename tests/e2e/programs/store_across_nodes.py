"""Ranks of several nodes meet in a store whose rank comes late, then wait for each other's keys.

Every rank prints the virtual milliseconds at which it had each key.
"""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta

import torch.distributed as dist

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
PORT = 29777


def main() -> None:
    start_s = time.perf_counter()
    if RANK == 0:
        time.sleep(2)
    limit = timedelta(hours=1)
    store = dist.TCPStore(os.environ["MASTER_ADDR"], PORT, RANKS, RANK == 0, limit)
    had_ms = []
    for turn in range(2 * RANKS):
        if turn % RANKS == RANK:
            time.sleep(0.1 * (RANK + 1))
            store.set(f"turn {turn}", "taken")
        assert store.get(f"turn {turn}") == b"taken"
        had_ms.append(round(1e3 * (time.perf_counter() - start_s)))
    store.set(f"done {RANK}", "")
    if RANK == 0:  # whose store it is
        store.wait([f"done {rank}" for rank in range(RANKS)], limit)
    print(json.dumps({"rank": RANK, "had": had_ms}), flush=True)


if __name__ == "__main__":
    main()
