"""Tells whether a rank's processes wait for something outside: a store, a lock, a pipe, another
rank.

A rank that uses no CPU for a while and is not about to run cannot get on by itself. Where the
simulation waits for such a rank, the agent sets it aside.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

QUIET_NS = 100_000_000

_PROC = Path("/proc")
# Running, and uninterruptible: a disk read ends without anybody's help.
_BUSY_STATES = ("R", "D")


@dataclass
class _Activity:
    cpu_ns: int
    quiet_since_ns: int


class IdleWatch:
    """Remembers, per rank, since when its processes have been quiet, by the wall clock."""

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock_ns = clock_ns
        self._activity: dict[int, _Activity] = {}

    def is_idle(self, rank: int, pid: int) -> bool:
        """Whether nothing in the process tree of `pid` ran for QUIET_NS, at any look."""
        now_ns = self._clock_ns()
        cpu_ns, busy = _look_at_tree(pid)
        seen = self._activity.get(rank)
        if seen is None or busy or cpu_ns != seen.cpu_ns:
            self._activity[rank] = _Activity(cpu_ns, now_ns)
            return False
        return now_ns - seen.quiet_since_ns >= QUIET_NS

    def forget(self, rank: int) -> None:
        """Starts anew for a rank that showed a sign of life."""
        self._activity.pop(rank, None)


def _look_at_tree(pid: int) -> tuple[int, bool]:
    """CPU time of the process and its descendants, and whether a thread of theirs is busy."""
    cpu_ns, busy = 0, False
    pending = [pid]
    while pending:
        for task in _tasks(pending.pop()):
            try:
                # Time on the CPU, the first of three numbers; the state follows the name in
                # parentheses.
                cpu_ns += int((task / "schedstat").read_text().split()[0])
                state = (task / "stat").read_text().rpartition(")")[2].split()[0]
                children = (task / "children").read_text().split()
            except (OSError, IndexError):
                busy = True  # It ended just now: something happened.
                continue
            busy = busy or state in _BUSY_STATES
            pending += [int(child) for child in children]
    return cpu_ns, busy


def _tasks(pid: int) -> Iterator[Path]:
    try:
        yield from (_PROC / str(pid) / "task").iterdir()
    except OSError:
        return
