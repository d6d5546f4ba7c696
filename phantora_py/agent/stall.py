"""Notices that no rank makes progress; says which ranks hold the others up and where they are.

A program that loops or waits for ever outside the simulation cannot be told from one that takes
long. So the user is told of it, and it is no failure, unless the user set a limit.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

from phantora_py.agent.children import ALL_ASLEEP, who_works
from phantora_py.agent.whereabouts import whereabouts
from phantora_py.launch.ranks import Beside
from sim_server.deadlock import ranges_text

# Told first after this time, then each time that it has doubled (assumed: longer than most silent
# parts of a healthy start).
FIRST_TOLD_S = 10.0
# What polling takes in so long: some microseconds a turn, a hundred turns a second (assumed).
_NO_TIME_NS = 20_000_000
# Of how many ranks is said where they are (assumed: more could not be read).
_MOST_LINES = 8
_RUNNING = "running without a GPU call"
_OUTSIDE = "waiting outside the simulation"


class StallWatch:
    """Remembers when a rank last made progress. Times are wall time."""

    def __init__(
        self,
        run_directory: Path,
        limit_s: float | None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`limit_s`: after so long a stall is a failure; None: never."""
        self._run_directory = run_directory
        self._limit_s = limit_s
        self._clock_s = clock_s
        self._last_s = clock_s()
        self._tell_after_s = FIRST_TOLD_S
        self._clocks_ns: dict[int, int] = {}

    def got_on(self) -> None:
        """A rank has made a call or ended."""
        self._last_s = self._clock_s()
        self._tell_after_s = FIRST_TOLD_S

    def heard(self, rank: int, host_clock_ns: int, *, only_turns: bool) -> None:
        """A rank has said something. `only_turns`: that it waits for its turn or comes back, as one
        does that polls; this is progress only if its clock has moved.
        """
        if only_turns and host_clock_ns < self._clocks_ns.get(rank, 0) + _NO_TIME_NS:
            return
        self._clocks_ns[rank] = host_clock_ns
        self.got_on()

    def is_due(self) -> bool:
        """Whether the user is to be told something."""
        return self.silence_s() >= self._tell_after_s or self.is_over()

    def is_over(self) -> bool:
        """Whether the user's limit is reached."""
        return self._limit_s is not None and self.silence_s() >= self._limit_s

    def tell(
        self,
        pids: Mapping[int, int],
        running: set[int],
        outside: set[int],
        beside_of: Callable[[int], Beside | None],
    ) -> str:
        """What there is to say. `running`, `outside`: ranks that the others wait for; `beside_of`:
        the processes that a rank lets work first.
        """
        silence_s = self.silence_s()
        while self._tell_after_s <= silence_s:
            self._tell_after_s *= 2
        suspects = {rank for rank in running | outside if rank in pids} or set(pids)
        tops = set(pids.values())
        is_at_work = False
        states: dict[str, list[int]] = defaultdict(list)
        for rank in sorted(suspects):
            where = ""
            if sum(map(len, states.values())) < _MOST_LINES:
                where = whereabouts(self._run_directory, rank, pids[rank])
                if rank not in outside:
                    who = who_works(pids[rank], tops - {pids[rank]}, beside_of(rank))
                    is_at_work |= who != ALL_ASLEEP
                    where += who
            what = _OUTSIDE if rank in outside else _RUNNING
            states[what + where].append(rank)
        parts = "; ".join(
            f"rank{' ' if len(ranks) == 1 else 's '}{ranges_text(ranks)} "
            f"{'is' if len(ranks) == 1 else 'are'} {what}"
            for what, ranks in states.items()
        )
        waiting = sorted(set(pids) - suspects)
        others = f"; waiting for that: {ranges_text(waiting)}" if waiting else ""
        # A rank that computes makes progress, though one cannot see how much.
        what = "there was no GPU call" if is_at_work else "no rank has made progress"
        return f"{what} for {silence_s:.0f} s: {parts}{others}"

    def silence_s(self) -> float:
        """How long no rank has made progress."""
        return self._clock_s() - self._last_s
