"""Notices a rank that sleeps again and again in no time, beside processes that are no ranks.

It may poll for what one of them does. Those that work or sleep by the clock are waited for
(`phantora_py.agent.children`); one that only looks after its children is not, and what it does
beside that would come after hours of virtual time.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from phantora_py.agent.idle import name_of
from phantora_py.launch.ranks import Beside
from sim_server.records import CELL_BYTES, RecordKind

# Assumed: who sleeps so often, with no call in between, polls; and who waits for a rank does not do
# so for longer.
_SLEEPS = 50
_LEAD_S = 60.0
# What a loop of sleeps writes: that it waits, and a mark of a line that reads a clock.
_OF_SLEEPS = frozenset({RecordKind.WAIT, RecordKind.MARKER})


@dataclass
class _Row:
    """Sleeps of a rank with no call in between."""

    begin_ns: int
    begin_s: float
    count: int = 0


class SleepWatch:
    """`clock_ns`: of a rank. Times are virtual nanoseconds, or seconds by the wall clock."""

    def __init__(
        self, clock_ns: Callable[[int], int], clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock_ns = clock_ns
        self._clock_s = clock_s
        self._rows: dict[int, _Row] = {}
        self.slept_s: dict[int, float] = {}
        """Of ranks that were told of: by how much their sleeps were longer than in reality."""

    def heard(self, rank: int, cells: bytes) -> None:
        """Records of the rank, which is no longer in a row of sleeps if it has made a call."""
        if any(kind not in _OF_SLEEPS for kind in cells[::CELL_BYTES]):
            self._rows.pop(rank, None)

    def sleeps(self, rank: int, beside: Beside) -> str | None:
        """It is about to; what the user is to be told, once for each rank."""
        now_ns, now_s = self._clock_ns(rank), self._clock_s()
        row = self._rows.setdefault(rank, _Row(now_ns, now_s))
        row.count += 1
        slept_ns, took_s = now_ns - row.begin_ns, now_s - row.begin_s
        lead_s = slept_ns / 1e9 - took_s
        if row.count < _SLEEPS or lead_s < _LEAD_S:
            return None
        is_told = rank in self.slept_s
        self.slept_s[rank] = max(lead_s, self.slept_s.get(rank, 0.0))
        if is_told:
            return None
        process = f"{beside.pid} ({name_of(f'/proc/{beside.pid}/task/{beside.pid}')})"
        return (
            f"rank {rank} has slept {row.count} times with no GPU call in between, "
            f"{slept_ns / 1e9:.0f} s of virtual time in {took_s:.0f} s, beside process {process}, "
            "which is no rank. If it polls for what that one does, its sleeps are too many: let it "
            "wait for that process by a pipe, a socket or a store"
        )
