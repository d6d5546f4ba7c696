"""Answers ranks that let their child processes work before they go on.

A sleep or a time-out of a rank is over when its children have done what they have to do
(csrc/shim/libc/children.cc), and its own threads what follows from that: one may hand a child its
input, or take its result. A thread of the rank's own may be busy for ever, so it is waited for only
for a while. The same is true of processes of the program that are no ranks, as the script that has
started it, if a driver sleeps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from phantora_py.agent.channels import Channels
from phantora_py.agent.idle import name_of, sleeps_by_clock, thread_at_work, thread_works
from phantora_py.agent.sleeps import SleepWatch
from phantora_py.launch.ranks import Beside

# Assumed: longer than a thread takes to hand over what a child said, on a busy machine too.
_PATIENCE_WITH_THREADS_S = 0.2
# A look reads some hundred files, so it is repeated ever less often.
_FIRST_INTERVAL_S = 0.001
_LAST_INTERVAL_S = 0.05
ALL_ASLEEP = ", all its threads asleep"


class ChildWatch:
    """Looks at the children of ranks that ask. Times are wall time."""

    def __init__(self, channels: Channels, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._channels = channels
        self._clock_s = clock_s
        self._questions: dict[int, _Question] = {}
        self._sleeps = SleepWatch(channels.clock, clock_s)
        self.slept_s: Mapping[int, float] = self._sleeps.slept_s

    def is_asked(self, rank: int) -> bool:
        """Whether a thread of the rank lets its children work: it will go on by itself."""
        return self._channels.gives_way(rank)[0] > 0

    def beside_of(self, rank: int, beside: Beside | None) -> Beside | None:
        """Processes that are no ranks, if the rank lets them work."""
        return beside if self._channels.gives_way(rank)[2] else None

    def heard(self, rank: int, cells: bytes) -> None:
        """A rank has said something."""
        self._sleeps.heard(rank, cells)

    def due_ms(self) -> int:
        """How soon to look again; a second if nobody asks."""
        looks_s = [one.look_at_s for one in self._questions.values() if not one.is_answered]
        return max(1, int(1000 * (min(looks_s) - self._clock_s()))) if looks_s else 1000

    def answer(self, pids: Mapping[int, int], beside: Beside | None = None) -> list[str]:
        """Answers the ranks whose children have nothing to do any more. `pids`: of all ranks.
        Returns what the user is to be told of them.
        """
        notes: list[str | None] = []
        for rank, pid in pids.items():
            threads, number, looks_beside = self._channels.gives_way(rank)
            if not threads:
                self._questions.pop(rank, None)
                continue
            question = self._questions.get(rank)
            if question is None or question.number != number:
                question = self._questions[rank] = _Question(number)
            now_s = self._clock_s()
            if question.is_answered or now_s < question.look_at_s:
                continue
            others = {other for other in pids.values() if other != pid}
            looked_at = beside if looks_beside else None
            sleep = question.look(pid, others, looked_at, now_s)
            if sleep is not None:
                notes += [self._sleeps.sleeps(rank, looked_at)] if looked_at is not None else []
                self._channels.tell_children(rank, number, sleep)
        return [note for note in notes if note is not None]


class _Question:
    """Of one rank: whether its children still work."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_answered = False
        self.look_at_s = 0.0
        self._interval_s = _FIRST_INTERVAL_S
        self._at_work: str | None = None
        self._children_sleep_since_s: float | None = None

    def look(
        self, pid: int, others: Collection[int], beside: Beside | None, now_s: float
    ) -> bool | None:
        """Whether a child, or one of `beside`, sleeps by the clock; None while one works."""
        self.look_at_s = now_s + self._interval_s
        self._interval_s = min(2 * self._interval_s, _LAST_INTERVAL_S)
        if self._at_work is not None and thread_works(self._at_work):
            return None
        self._at_work = thread_at_work(pid, but=others, but_first=True)
        if self._at_work is None and beside is not None:
            self._at_work = thread_at_work(beside.pid, but=beside.ranks)
        if self._at_work is not None:
            self._children_sleep_since_s = None
            return None
        since_s = self._children_sleep_since_s
        self._children_sleep_since_s = now_s if since_s is None else since_s
        all_sleep = thread_at_work(pid, but=others) is None
        if not all_sleep and now_s - self._children_sleep_since_s < _PATIENCE_WITH_THREADS_S:
            return None
        self.is_answered = True
        if sleeps_by_clock(pid, but=others):
            return True
        return beside is not None and sleeps_by_clock(beside.pid, but=beside.ranks, itself=True)


def who_works(pid: int, others: Collection[int], beside: Beside | None = None) -> str:
    """What makes a rank count as running, as the end of a phrase. `others`: as of
    `thread_at_work`; `beside`: whom it lets work first.
    """
    at_work = thread_at_work(pid, but=others)
    if at_work is None and beside is not None:
        at_work = thread_at_work(beside.pid, but=beside.ranks)
        if at_work is not None:
            process = at_work.split("/")[2]
            return f", while process {process} ({name_of(at_work)}), which is no rank, works"
    if at_work is None:
        return ALL_ASLEEP
    process, thread = at_work.split("/")[2::2]
    if process != str(pid):
        return f", while its process {process} ({name_of(at_work)}) works"
    return "" if thread == process else f", while its thread {name_of(at_work)} works"
