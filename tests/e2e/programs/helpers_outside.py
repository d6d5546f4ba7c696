"""Waits in many ways, with short time-outs, for work of processes that it starts.

Prints JSON: by way, what came of it and what it took, in nanoseconds of virtual time. Argument: a
directory.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import multiprocessing
import multiprocessing.connection
import queue
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch

WORK_S = 0.5
TURN_S = 0.01
TURNS = 5
PLACE = Path(sys.argv[1])
WORK = f"""
import sys, time
while time.process_time() < {WORK_S}: pass
"""
came_of_it: dict[str, tuple[object, int]] = {}


def work(number: int) -> int:
    exec(WORK)
    return number


def child(last: str = "") -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-S", "-c", WORK + last], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def measure(name: str, wait: Callable[[], object]) -> None:
    start_ns = time.monotonic_ns()
    came_of_it[name] = wait(), time.monotonic_ns() - start_ns


def poll(is_ready: Callable[[], object]) -> int | str:
    """How many turns it took."""
    for turn in range(TURNS):
        if is_ready():
            return turn
        time.sleep(TURN_S)
    return "never"


def poll_child() -> object:
    process = child()
    return poll(lambda: process.poll() is not None)


def poll_file() -> object:
    path = PLACE / "file"
    process = child(f"open({str(path)!r}, 'w').close()")
    turns = poll(path.exists)
    return turns, process.wait()


def poll_daemon() -> object:
    """One that goes on when it has done what it is waited for."""
    path = PLACE / "ready"
    process = child(f"open({str(path)!r}, 'w').close(); input()")
    turns = poll(path.exists)
    process.kill()
    return turns, process.wait()


def poll_pool() -> object:
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        future = pool.submit(work, 3)
        return poll(future.done), future.result()


def in_communicate() -> object:
    output, _ = child("print(5)").communicate(timeout=TURN_S)
    return output.decode()


def in_select() -> object:
    output = child("print(5)").stdout
    assert output is not None
    return len(select.select([output], [], [], TURN_S)[0])


def in_connection() -> object:
    process = multiprocessing.get_context("spawn").Process(target=work, args=(3,))
    process.start()
    return len(multiprocessing.connection.wait([process.sentinel], TURN_S))


def hand_over(results: multiprocessing.Queue[int]) -> None:
    results.put(work(3))


def poll_queues() -> object:
    """Without a pause. Looking at an empty one ends when a clock has moved."""
    context = multiprocessing.get_context("spawn")
    results, nothing = context.Queue(), context.Queue()
    context.Process(target=hand_over, args=(results,)).start()
    while True:
        for source in (nothing, results):
            with suppress(queue.Empty):
                return source.get_nowait()


def in_asyncio() -> object:
    async def wait() -> int:
        process = await asyncio.create_subprocess_exec(sys.executable, "-S", "-c", WORK)
        for turn in range(TURNS):
            if process.returncode is not None:
                return turn
            await asyncio.sleep(TURN_S)
        return -1

    return asyncio.run(wait())


def in_thread(wait: Callable[[], object]) -> object:
    """While the main thread goes on by itself, in virtual time."""
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(wait()))
    thread.start()
    for _ in range(20):
        time.sleep(TURN_S / 4)
    thread.join()
    return found[0]


def main() -> None:
    torch.cuda.init()
    measure("wait", lambda: child().wait(timeout=TURN_S))
    measure("communicate", in_communicate)
    measure("select", in_select)
    measure("poll a child", poll_child)
    measure("poll a file", poll_file)
    measure("poll a daemon's file", poll_daemon)
    measure("poll a pool", poll_pool)
    measure("connection.wait", in_connection)
    measure("poll queues", poll_queues)
    measure("asyncio.sleep", in_asyncio)
    measure("poll a child in a thread", lambda: in_thread(poll_child))
    measure("sleep beside a daemon", lambda: time.sleep(TURN_S))
    print(json.dumps(came_of_it))


if __name__ == "__main__":
    main()
