"""Every way of Python to wait with a time-out, which nothing ends earlier, and some that are ended.

Prints JSON: how long each took, in nanoseconds of the thread's clock.
"""

import asyncio
import contextlib
import json
import multiprocessing
import os
import queue
import select
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial

import torch
from torch.utils.data import DataLoader, Dataset

WAIT_S, SHORT_WAIT_S = 60.0, 3.0
took: dict[str, int] = {}


def measure(name: str, wait: Callable[[], object]) -> None:
    start_ns = time.monotonic_ns()
    with contextlib.suppress(queue.Empty, TimeoutError, subprocess.TimeoutExpired):
        wait()
    took[name] = time.monotonic_ns() - start_ns


def on_condition() -> None:
    condition = threading.Condition()
    with condition:
        condition.wait(WAIT_S)


def wait_in_all_ways(where: str) -> None:
    reader, _ = os.pipe()
    connection, _other = multiprocessing.Pipe()
    epoll, poll = select.epoll(), select.poll()
    epoll.register(reader, select.EPOLLIN)
    poll.register(reader, select.POLLIN)
    for name, wait in {
        "event": lambda: threading.Event().wait(WAIT_S),
        "condition": on_condition,
        "semaphore": lambda: threading.Semaphore(0).acquire(timeout=WAIT_S),
        "queue": lambda: queue.Queue().get(timeout=WAIT_S),
        "queue of processes": lambda: multiprocessing.Queue().get(timeout=WAIT_S),
        "connection": lambda: connection.poll(WAIT_S),
        "select": lambda: select.select([reader], [], [], WAIT_S),
        "poll": lambda: poll.poll(WAIT_S * 1000),
        "epoll": lambda: epoll.poll(WAIT_S),
        "sleep": lambda: time.sleep(WAIT_S),
        "asyncio.sleep": lambda: asyncio.run(asyncio.sleep(WAIT_S)),
        "asyncio.wait_for": lambda: asyncio.run(asyncio.wait_for(asyncio.sleep(1e6), WAIT_S)),
    }.items():
        measure(f"{where}: {name}", wait)


def in_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def wait_for_processes() -> None:
    """One waits for input. The other sleeps by the clock and may wake: while it does, the rank's
    time passes no faster than the machine's.
    """
    for name, words, wait_s in (
        ("main: process", ["cat"], WAIT_S),
        ("process that sleeps", ["sleep", "100000"], SHORT_WAIT_S),
    ):
        child = subprocess.Popen(words, stdin=subprocess.PIPE)
        measure(name, partial(child.wait, wait_s))
        child.kill()
        child.wait()


def wait_for_timers() -> None:
    """One sets the event in time, the other has been cancelled."""
    in_time, never = threading.Event(), threading.Event()
    threading.Timer(WAIT_S / 2, in_time.set).start()
    cancelled = threading.Timer(WAIT_S / 2, never.set)
    cancelled.start()
    cancelled.cancel()
    measure("ended: event", lambda: in_time.wait(WAIT_S))
    assert in_time.is_set()
    measure("main: event of a timer that was cancelled", lambda: never.wait(WAIT_S))
    assert not never.is_set()


def train_under_a_timer() -> None:
    """The device works, the host waits for it: a timer is due in between."""
    matrix = torch.ones(8192, 8192, device="cuda")
    rang: list[int] = []
    start_ns = time.monotonic_ns()
    threading.Timer(3.0, lambda: rang.append(time.monotonic_ns() - start_ns)).start()
    iterations = 0
    while not rang:
        for _ in range(20):
            matrix @ matrix
        torch.cuda.synchronize()
        iterations += 1
    took["timer while training"] = rang[0]
    took["training until the timer"] = time.monotonic_ns() - start_ns
    took["iterations until the timer"] = iterations


class Clock(Dataset[int]):  # type: ignore[misc]
    """Tells the worker's clock."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        return time.monotonic_ns()


def look_at_workers_clocks() -> None:
    """Neither they nor their work are in the rank's process. Each takes real time to start."""
    for context in ("fork", "spawn"):
        start_ns = time.monotonic_ns()
        loader = DataLoader(Clock(), num_workers=1, multiprocessing_context=context)
        told = [int(batch) for batch in loader]
        took[f"clock of worker: {context}"] = max(told) - start_ns
        took[f"loader: {context}"] = time.monotonic_ns() - start_ns


if __name__ == "__main__":
    torch.ones(4, device="cuda").sum().item()
    wait_in_all_ways("main")
    wait_for_processes()
    in_thread(lambda: wait_in_all_ways("thread"))
    wait_for_timers()
    train_under_a_timer()
    look_at_workers_clocks()
    print(json.dumps(took))
