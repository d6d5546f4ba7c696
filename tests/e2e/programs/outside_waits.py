"""Three ranks wait for each other by every means of the operating system, and note virtual times.

Rank 1 acts half a virtual second late, rank 0 waits for it; rank 2 runs ahead, and works for real.
Each writes a JSON object: nanoseconds since a scenario began, by scenario.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

DELAY_S = 0.5
PERIOD_NS = 10 * 10**9
WORK_S = 0.3
RANK = int(os.environ["RANK"])
WAITING, ACTING, OTHER = range(3)


def work() -> None:
    """Computes, in real time and in no virtual time."""
    deadline_s = time.process_time() + WORK_S
    while time.process_time() < deadline_s:
        sum(range(1000))


def late() -> int:
    """Half a virtual second passes; the time at which this rank then acts."""
    time.sleep(DELAY_S)
    return time.perf_counter_ns()


def named_pipe(place: Path) -> int:
    """A reader waits for its writer, and then for what it writes."""
    if RANK == WAITING:
        with place.open() as pipe:
            pipe.readline()
        return time.perf_counter_ns()
    now_ns = late()
    with place.open("w") as pipe:
        pipe.write("go\n")
    return now_ns


def advisory_lock(place: Path, lock: Callable[[int, int], None]) -> int:
    """Who asks for a lock that is held waits until it is freed."""
    with place.open("r+") as file:
        if RANK == WAITING:
            time.sleep(DELAY_S / 5)
        lock(file.fileno(), fcntl.LOCK_EX)
        now_ns = late() if RANK == ACTING else time.perf_counter_ns()
        lock(file.fileno(), fcntl.LOCK_UN)
    return now_ns


def closed_lock(place: Path) -> int:
    """A lock is free when its file is closed."""
    with place.open("r+") as file:
        if RANK == WAITING:
            time.sleep(DELAY_S / 5)
        fcntl.flock(file, fcntl.LOCK_EX)
        return late() if RANK == ACTING else time.perf_counter_ns()


def stream(place: Path, family: socket.AddressFamily) -> int:
    """A server waits for its client, and then for the answer to its greeting."""
    address = str(place) if family == socket.AF_UNIX else ("127.0.0.1", int(sys.argv[2]))
    with socket.socket(family, socket.SOCK_STREAM) as own:
        if RANK == WAITING:
            own.bind(address)
            own.listen()
            other, _ = own.accept()
            with other:
                other.sendall(b"welcome")
                other.recv(4)
                return time.perf_counter_ns()
        time.sleep(DELAY_S / 5)
        own.connect(address)
        own.recv(7)
        now_ns = late()
        own.sendall(b"done")
        return now_ns


def closed_stream(place: Path) -> int:
    """Who reads learns that a connection ends when the other side closes it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as own:
        if RANK == WAITING:
            own.bind(str(place))
            own.listen()
            other, _ = own.accept()
            with other:
                assert other.recv(1) == b""
                return time.perf_counter_ns()
        time.sleep(DELAY_S / 5)
        own.connect(str(place))
        return late()


def poll(place: Path) -> int:
    """A wait for several descriptors ends when one is ready."""
    if RANK == WAITING:
        with place.open("r+b", buffering=0) as pipe:
            select.select([pipe], [], [])
            return time.perf_counter_ns()
    now_ns = late()
    with place.open("wb", buffering=0) as pipe:
        pipe.write(b"x")
    return now_ns


def first_come(place: Path) -> int:
    """Who asks first in virtual time gets the lock, though it asks much later in real time."""
    if RANK == WAITING:
        work()
        time.sleep(DELAY_S / 2)
    elif RANK == ACTING:
        time.sleep(DELAY_S)
    with place.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with place.open("a") as log:
            log.write(f"{RANK}\n")
        fcntl.flock(file, fcntl.LOCK_UN)
    return time.perf_counter_ns()


def queue(place: Path, file: Path) -> int:
    """Two wait for a lock that a third one holds, the last in real time being first in its turn."""
    with file.open("r+") as locked:
        if RANK != ACTING:
            time.sleep(DELAY_S / 5 * (1 + (RANK == WAITING)))
        fcntl.flock(locked, fcntl.LOCK_EX)
        now_ns = late() if RANK == ACTING else time.perf_counter_ns()
        with place.open("a") as log:
            log.write(f"{RANK}\n")
        fcntl.flock(locked, fcntl.LOCK_UN)
    return now_ns


def main() -> None:
    """All scenarios, one after the other; a scenario begins when its time has come."""
    directory = Path()
    os.chdir(sys.argv[1])  # the path of a socket may not be long
    pipe, other_pipe, file = (directory / name for name in ("pipe", "other-pipe", "file"))
    scenarios: dict[str, Callable[[], int]] = {
        "named pipe": lambda: named_pipe(pipe),
        "poll": lambda: poll(other_pipe),
        "flock": lambda: advisory_lock(file, fcntl.flock),
        "fcntl": lambda: advisory_lock(file, fcntl.lockf),
        "closed lock": lambda: closed_lock(file),
        "unix socket": lambda: stream(directory / "server", socket.AF_UNIX),
        "internet socket": lambda: stream(directory, socket.AF_INET),
        "closed socket": lambda: closed_stream(directory / "other-server"),
        "first come": lambda: first_come(directory / "order"),
        "queue": lambda: queue(directory / "queue", file),
    }
    readings = {}
    for number, (name, scenario) in enumerate(scenarios.items(), 1):
        begin_ns = START_NS + number * PERIOD_NS
        time.sleep((begin_ns - time.perf_counter_ns()) / 1e9)
        if RANK == OTHER and name != "queue":
            work()
            time.sleep(DELAY_S)
        else:
            readings[name] = scenario() - begin_ns
    (directory / f"rank-{RANK}.json").write_text(json.dumps(readings))


if __name__ == "__main__":
    START_NS = time.perf_counter_ns()  # virtual time 0, for all ranks
    main()
