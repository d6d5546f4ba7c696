"""Three ranks wait for each other in stores and in collectives of gloo, and note virtual times.

Rank 1 acts half a virtual second late, rank 0 waits for it; rank 2 runs ahead, and works for real.
Each writes a JSON object: nanoseconds since a scenario began, by scenario.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

DELAY_S = 0.5
PERIOD_NS = 10 * 10**9
WORK_S = 0.2
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
WAITING, ACTING, OTHER = range(3)


def work() -> None:
    """Computes, in real time and in no virtual time."""
    deadline_s = time.process_time() + WORK_S
    while time.process_time() < deadline_s:
        sum(range(1000))


def meet(act: Callable[[], object], wait: Callable[[], object]) -> int:
    """One rank acts late, another waits for it; when each of them did."""
    if RANK == WAITING:
        wait()
        return time.perf_counter_ns()
    if RANK == ACTING:
        time.sleep(DELAY_S)
        now_ns = time.perf_counter_ns()
        act()
        return now_ns
    work()
    return time.perf_counter_ns()


def all_meet(collective: Callable[[], object]) -> int:
    """All ranks enter, one of them late; when each of them entered last or left."""
    if RANK == ACTING:
        time.sleep(DELAY_S)
    now_ns = time.perf_counter_ns()
    if RANK == OTHER:
        work()
    collective()
    return now_ns if RANK == ACTING else time.perf_counter_ns()


def in_background(store: dist.Store) -> int:
    """A thread of the program that drives no GPU waits, and the program for the thread."""
    thread = threading.Thread(target=store.get, args=("thread",))

    def wait() -> None:
        thread.start()
        thread.join()

    return meet(lambda: store.set("thread", "1"), wait)


def order(store: dist.Store) -> int:
    """What each rank is told by a counter follows virtual time, whoever is first in real time."""
    time.sleep(DELAY_S * (RANKS - RANK))
    if RANK == RANKS - 1:
        work()
    return int(store.add("order", 1))


def scenarios_of(name: str, store: dist.Store) -> dict[str, Callable[[], int]]:
    """Those of one store."""
    return {
        f"{name} get": lambda: meet(lambda: store.set("a", "1"), lambda: store.get("a")),
        f"{name} wait": lambda: meet(lambda: store.set("b", "1"), lambda: store.wait(["b"])),
        f"{name} add": lambda: meet(lambda: store.add("c", 1), lambda: store.wait(["c"])),
        f"{name} compare_set": lambda: meet(
            lambda: store.compare_set("d", "", "1"), lambda: store.wait(["d"])
        ),
        f"{name} thread": lambda: in_background(store),
        f"{name} order": lambda: order(store),
    }


def main() -> None:
    """All scenarios; each begins at a time of its own."""
    start_ns = time.perf_counter_ns()  # virtual time 0, for all ranks
    dist.init_process_group("gloo")
    tensor = torch.ones(4)
    large = torch.ones(1 << 20)
    tcp = dist.TCPStore("127.0.0.1", int(sys.argv[2]), RANKS, is_master=RANK == 0)
    file = dist.FileStore(str(Path(sys.argv[1]) / "store"), RANKS)
    scenarios: dict[str, Callable[[], int]] = {
        **scenarios_of("tcp", tcp),
        **scenarios_of("file", file),
        "barrier": lambda: all_meet(dist.barrier),
        "all_reduce": lambda: all_meet(lambda: dist.all_reduce(tensor)),
        "large all_reduce": lambda: all_meet(lambda: dist.all_reduce(large)),
        "broadcast": lambda: all_meet(lambda: dist.broadcast(tensor, src=ACTING)),
    }
    readings = {}
    for number, (name, scenario) in enumerate(scenarios.items(), 1):
        begin_ns = start_ns + number * PERIOD_NS
        time.sleep((begin_ns - time.perf_counter_ns()) / 1e9)
        reading = scenario()
        readings[name] = reading if name.endswith("order") else reading - begin_ns
    (Path(sys.argv[1]) / f"rank-{RANK}.json").write_text(json.dumps(readings))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
