"""Tells whether a rank's processes wait for something outside: a store, a lock, a pipe, another
rank.

A rank that hardly wants the processor for a while cannot get on by itself. Where the simulation
waits for such a rank, the agent sets it aside. Hardly, because threads of the framework (NCCL's
watchdog, the heartbeat of its monitor) wake now and then in a rank that waits.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

QUIET_NS = 100_000_000
# Share of one processor that watchdogs may want in a rank that waits. Assumed; they take under 1 %.
QUIET_SHARE = 0.05

_PROC = Path("/proc")


@dataclass
class _Window:
    start_ns: int
    wanted_ns: int


class IdleWatch:
    """Remembers, per rank, what its processes have wanted of the processor, by the wall clock."""

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock_ns = clock_ns
        self._windows: dict[int, _Window] = {}

    def is_idle(self, rank: int, pid: int) -> bool:
        """Whether the process tree of `pid` has been quiet for QUIET_NS, at any look."""
        now_ns = self._clock_ns()
        wanted_ns, reads_disk = _look_at_tree(pid)
        window = self._windows.setdefault(rank, _Window(now_ns, wanted_ns))
        lasted_ns = now_ns - window.start_ns
        wanted_meanwhile_ns = wanted_ns - window.wanted_ns
        if reads_disk or not 0 <= wanted_meanwhile_ns <= QUIET_SHARE * max(lasted_ns, QUIET_NS):
            self._windows[rank] = _Window(now_ns, wanted_ns)
            return False
        return lasted_ns >= QUIET_NS

    def forget(self, rank: int) -> None:
        """Starts anew for a rank that showed a sign of life."""
        self._windows.pop(rank, None)


def _look_at_tree(pid: int) -> tuple[int, bool]:
    """Time that the process and its descendants ran or were ready to, and whether one reads a disk.

    Processes that have ended no longer count, so the time may shrink.
    """
    wanted_ns, reads_disk = 0, False
    pending = [pid]
    while pending:
        for task in _tasks(pending.pop()):
            try:
                # Time on the processor and time in the queue for it, the first two of three
                # numbers; the state follows the name in parentheses.
                ran_ns, queued_ns, _ = (task / "schedstat").read_text().split()
                state = (task / "stat").read_text().rpartition(")")[2].split()[0]
                children = (task / "children").read_text().split()
            except (OSError, ValueError):
                reads_disk = True  # It ended just now: something happened.
                continue
            wanted_ns += int(ran_ns) + int(queued_ns)
            reads_disk = reads_disk or state in "DR"
            pending += [int(child) for child in children]
    return wanted_ns, reads_disk


def _tasks(pid: int) -> Iterator[Path]:
    try:
        yield from (_PROC / str(pid) / "task").iterdir()
    except OSError:
        return
