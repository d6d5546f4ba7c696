"""Processes and what they have started."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import psutil


def tree(pid: int) -> Iterator[int]:
    """A process and those below it, as far as they live. A look takes a file per thread; to ask for
    the parent of every process of the machine would take longer.
    """
    pending = [pid]
    while pending:
        process = pending.pop()
        yield process
        with contextlib.suppress(OSError):  # it has ended
            for task in Path(f"/proc/{process}/task").iterdir():
                pending += map(int, (task / "children").read_text().split())


def cpu_s(*pids: int) -> float:
    """CPU time of these processes and of those below them, with those that they have waited for."""
    used_s = 0.0
    for process in {one for pid in pids for one in tree(pid)}:
        with contextlib.suppress(psutil.Error):  # it has ended, and its parent has its time
            used_s += sum(psutil.Process(process).cpu_times()[:4])
    return used_s


def find_process(top: int, own_pid: int) -> int | None:
    """The process of a tree that has this id in its own pid namespace."""
    for process in tree(top):
        with contextlib.suppress(OSError):  # It has ended.
            status = Path(f"/proc/{process}/status").read_text()
            ids = re.search(r"^NSpid:(.*)$", status, re.MULTILINE)
            if ids and int(ids[1].split()[-1]) == own_pid:
                return process
    return None
