"""What an iteration is: which of the marks that a rank leaves end one.

The report (phantora_py/report/iterations.py) and the notice that the iteration time has settled
(sim_server/log/steady.py) both go by it. docs/decisions/iterations.md has the rules.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sim_server.records import MarkerKind
from sim_server.settings import Choice

Key = tuple[str, str]
"""How an iteration is found, and the name of the mark: ("optimizer", "AdamW#0")."""

LEAST_REPEATS = 3
"""So often something happens that repeats (assumed)."""
MOSTLY = 0.75
"""So large a share of what repeats does equal work (assumed)."""
_LOOKED_AT = 64
"""So many of the last intervals are looked at (assumed to be enough for any schedule)."""
_ALIKE_SHARE = 0.02
_ALIKE_LAUNCHES = 2
"""Intervals whose launches differ by no more do equal work: a value that is logged is a copy or two
(assumed)."""
_LITTLE_SHARE = 0.15
"""Steps differ by less than that share of their launches: a log or an evaluation now and then
(assumed)."""
_MOST_MARKS = 1 << 16
"""A watch that never finds what it waits for keeps no more of a rank."""

_BY = {
    MarkerKind.ITERATION: "marker",
    MarkerKind.CLOCK_READ: "clock",
    MarkerKind.BACKWARD: "backward",
    MarkerKind.PROFILER_STEP: "profiler",
    MarkerKind.SCHEDULER_STEP: "scheduler",
    MarkerKind.CALL: "call",
}
EVERY_RANK = ("marker", "optimizer")
"""What every rank has to do for an iteration to end; the rest one may do for all."""
PRECEDENCE = ("marker", "optimizer", "profiler", "clock", "scheduler", "nvtx", "backward", "call")
"""What is gone by before what, if both are there (`choose`)."""
_NAMED = ("clock", "backward", "call")


@dataclass(frozen=True)
class Rule:
    """Every so many marks of a series an iteration ends, from the mark `phase` on."""

    by: str
    name: str
    every: int = 1
    phase: int = 0


class Series:
    """Marks that happen again and again: their places among all marks of the rank."""

    def __init__(self) -> None:
        self.count = 0
        self.places: list[int] = []
        """Of the last ones; all, unless some were forgotten."""

    def add(self, place: int) -> None:
        self.count += 1
        self.places.append(place)

    def move(self, place: int) -> None:
        """The last one was not the last of its kind."""
        self.places[-1] = place

    @property
    def forgotten(self) -> int:
        """How many of the first are not there any more."""
        return self.count - len(self.places)


class RankMarks:
    """The marks of one rank, and the work between them. Marks are heard first and taken later, in
    order, once the work before them is known.
    """

    def __init__(self) -> None:
        self.times_ns: list[int] = []
        """Of the host, by place."""
        self.done_ns: list[int] = [0]
        """By place, when work was done that was issued since the one before; the last: since all
        of them. Of marks that were taken: that was issued before."""
        self.launches: list[int] = [0]
        """Likewise how much there was since the one before."""
        self.taken = 0
        self.series: dict[Key, Series] = {}
        self._heard: deque[tuple[int, str]] = deque()
        self._forgotten = 0
        self._ranges: list[str] = []
        self._run: Counter[str] = Counter()
        self._usual: Counter[str] = Counter()
        self._has_backward = False

    def hear(self, time_ns: int, kind: int, name: str) -> None:
        """The next mark."""
        self.times_ns.append(time_ns)
        self.done_ns.append(0)
        self.launches.append(0)
        self._heard.append((kind, name))

    def add_work(self, issues_ns: np.ndarray, ends_ns: np.ndarray) -> None:
        """Work that is done, none of it issued before a mark that was taken."""
        begin = self.taken - self._forgotten
        times_ns = np.array(self.times_ns[begin:], np.int64)
        gaps = np.searchsorted(times_ns, issues_ns, side="left")
        counts = np.bincount(gaps, minlength=len(times_ns) + 1)
        done_ns = np.zeros(len(counts), np.int64)
        np.maximum.at(done_ns, gaps, ends_ns)
        for gap in np.flatnonzero(counts).tolist():
            self.launches[begin + gap] += int(counts[gap])
            self.done_ns[begin + gap] = max(self.done_ns[begin + gap], int(done_ns[gap]))

    def next_time_ns(self) -> int | None:
        """Of the mark that is taken next; None if none was heard."""
        return self.times_ns[self.taken - self._forgotten] if self._heard else None

    def take(self) -> Key | None:
        """Take the next mark. Returns its series, if an iteration may end with it."""
        kind, name = self._heard.popleft()
        place = self.taken
        at = place - self._forgotten
        if at:
            self.done_ns[at] = max(self.done_ns[at - 1 : at + 1])
        self.taken += 1
        if kind == MarkerKind.OPTIMIZER_STEP:
            return self._add_step(name, place)
        if kind == MarkerKind.RANGE_PUSH:
            self._ranges.append(name)
            self.series.setdefault(("nvtx", name), Series())
            return None
        if kind == MarkerKind.RANGE_POP:
            return self._add("nvtx", self._ranges.pop(), place) if self._ranges else None
        if kind == MarkerKind.BACKWARD:
            self._end_run()
        by = _BY[MarkerKind(kind)]
        return self._add(by, name if by in _NAMED else "", place)

    def end_ns(self, place: int) -> int:
        """When the host had passed a mark that was taken, and the device had done what was issued
        before.
        """
        at = place - self._forgotten
        return max(self.times_ns[at], self.done_ns[at])

    def time_ns(self, place: int) -> int:
        """Of the host."""
        return self.times_ns[place - self._forgotten]

    def forget(self) -> None:
        """Drop the older half of very many marks that were taken."""
        if self.taken - self._forgotten <= _MOST_MARKS:
            return
        dropped = _MOST_MARKS // 2
        self._forgotten += dropped
        for column in (self.times_ns, self.done_ns, self.launches):
            del column[:dropped]
        for one in self.series.values():
            one.places = [place for place in one.places if place >= self._forgotten]

    def _add(self, by: str, name: str, place: int) -> Key:
        self.series.setdefault((by, name), Series()).add(place)
        return by, name

    def _add_step(self, name: str, place: int) -> Key | None:
        """Steps of one optimizer without a backward pass between them are one: DeepSpeed has
        one for each part of the parameters. It may be over where it was over the last time.
        """
        self._run[name] += 1
        if self._has_backward and self._run[name] > 1:
            self.series["optimizer", name].move(place)
        else:
            self._add("optimizer", name, place)
        return ("optimizer", name) if self.is_over(name) else None

    def is_over(self, optimizer: str) -> bool:
        """Whether its last step had as many parts as the one before."""
        return not self._has_backward or self._run[optimizer] >= self._usual[optimizer]

    def _end_run(self) -> None:
        self._has_backward = True
        self._usual.update({name: count - self._usual[name] for name, count in self._run.items()})
        self._run.clear()

    def ends(self, rule: Rule) -> list[int]:
        """The places at which iterations end, as far as they are known."""
        series = self.series.get((rule.by, rule.name), Series())
        begin = (rule.phase - series.forgotten) % rule.every
        return series.places[begin :: rule.every]

    def count(self, rule: Rule) -> int:
        """How many iterations have ended, also such as were forgotten."""
        series = self.series.get((rule.by, rule.name), Series())
        return max(0, (series.count - 1 - rule.phase) // rule.every + 1)

    def work(self, places: Sequence[int]) -> list[int]:
        """How many launches there were between consecutive places."""
        first = self._forgotten
        pairs = pairwise(places)
        return [sum(self.launches[one - first + 1 : other - first + 1]) for one, other in pairs]


def choose(marks: RankMarks, choice: Choice | None = None) -> Rule | None:
    """What ends this rank's iterations; None if nothing does that is marked."""
    if choice is not None:
        return _chosen(marks, choice)
    for find in (_marked, _stepped, _profiled, _timed, _scheduled, _ranged, _passed_backward):
        rule = find(marks)
        if rule is not None:
            return rule
    return None


def _chosen(marks: RankMarks, choice: Choice) -> Rule | None:
    for by, name in marks.series:
        ordinal = name.rpartition("#")[2]
        if by == choice.by and choice.name in ("", ordinal if by == "optimizer" else name):
            return Rule(by, name)
    return None


def _marked(marks: RankMarks) -> Rule | None:
    return Rule("marker", "") if ("marker", "") in marks.series else None


def _stepped(marks: RankMarks) -> Rule | None:
    """By the optimizer that steps least often among those that go on stepping: an iteration has a
    step of each. Of several that step as often the one that came last ends it.
    """
    rarest = _rarest(marks, "optimizer")
    if rarest is None:
        return None
    return Rule("optimizer", rarest, *_grouped_by_clock(marks, ("optimizer", rarest)))


def _profiled(marks: RankMarks) -> Rule | None:
    return _repeating(marks, ("profiler", ""))


def _scheduled(marks: RankMarks) -> Rule | None:
    return _repeating(marks, ("scheduler", ""))


def _repeating(marks: RankMarks, key: Key) -> Rule | None:
    series = marks.series.get(key)
    return Rule(*key) if series is not None and series.count >= LEAST_REPEATS else None


def _timed(marks: RankMarks) -> Rule | None:
    """By the line that reads a clock around equal work: the one that does so without exception and
    most often; of several the one that came last.
    """
    found: list[tuple[bool, int, int, str]] = []
    for number, ((by, name), series) in enumerate(marks.series.items()):
        if by != "clock" or series.count <= LEAST_REPEATS:
            continue
        work = marks.work(series.places[-_LOOKED_AT:])[1:]
        share = alike_share(work)
        if sum(work) and share >= MOSTLY:
            found.append((share == 1, series.count, number, name))
    if not found:
        return None
    rule = Rule("clock", max(found)[-1])
    passes = _passed_backward(marks)
    return passes if passes is not None and _reads_now_and_then(marks, rule, passes) else rule


def _reads_now_and_then(marks: RankMarks, clock: Rule, passes: Rule) -> bool:
    """Whether the clock is read once in several iterations that end with a backward pass, as for a
    log. They do equal work: where passes are micro-batches, all but the first add to gradients.
    """
    ends = marks.ends(passes)
    work = marks.work(ends[-_LOOKED_AT:])[1:]
    if len(ends) <= LEAST_REPEATS or alike_share(work) < MOSTLY:
        return False
    reads = [place for place in marks.ends(clock) if place > ends[0]]
    between = np.diff(np.searchsorted(ends, reads))
    return bool(len(between) and np.median(between) > 1)


def _ranged(marks: RankMarks) -> Rule | None:
    """By the NVTX range that came first among those that are repeated."""
    for (by, name), series in marks.series.items():
        if by == "nvtx" and series.count > 1:
            return Rule(by, name)
    return None


def _passed_backward(marks: RankMarks) -> Rule | None:
    """By the line of a backward pass; of so many passes as do different work one after the other:
    an optimizer that leaves no mark (compiled) steps once in so many.
    """
    rarest = _rarest(marks, "backward")
    if rarest is None:
        return None
    series = marks.series["backward", rarest]
    work = marks.work(series.places[-_LOOKED_AT:])[1:]
    every = period(work)
    if every == 1:
        return Rule("backward", rarest)
    # What is done once in an iteration comes after its last pass.
    last = len(work) - every
    most = max(range(last, len(work)), key=lambda number: work[number])
    begun = series.count - len(work) - 1
    return Rule("backward", rarest, every, (begun + most) % every)


def _rarest(marks: RankMarks, by: str) -> str | None:
    """The name of the series of one kind that has fewest marks and goes on."""
    series = {name: one for (kind, name), one in marks.series.items() if kind == by}
    if not series:
        return None
    end = max(one.places[-1] for one in series.values() if one.places)
    living = {
        name: one
        for name, one in series.items()
        if one.count > 1 and one.places and 2 * one.places[-1] >= end
    }
    order = list(series)
    return min(living or series, key=lambda name: (series[name].count, -order.index(name)))


def _grouped_by_clock(marks: RankMarks, key: Key) -> tuple[int, int]:
    """`every` and `phase`: several steps, of different work, are an iteration if the program reads
    its clock once in so many and in none more often.
    """
    series = marks.series[key]
    places = series.places[-_LOOKED_AT:]
    if len(places) <= LEAST_REPEATS or _hardly_differ(marks.work(places)[1:]):
        return 1, 0
    best = (1, 0)
    for (by, _), clock in marks.series.items():
        reads = [place for place in clock.places if places[0] < place]
        if by != "clock" or len(reads) < LEAST_REPEATS:
            continue
        before = [sum(place < read for place in places) for read in reads]
        steps = {later - sooner for sooner, later in pairwise(before)}
        if len(steps - {0}) != 1:
            continue
        (every,) = steps - {0}
        if every == 1:
            return 1, 0
        best = (every, (series.count - len(places) + before[-1] - 1) % every)
    return best


def period(work: Sequence[int]) -> int:
    """After how many intervals the work repeats; 1 if it does not, or is always the same."""
    for every in range(1, len(work) // 2 + 1):
        pairs = zip(work, work[every:], strict=False)
        if all(are_alike(one, other) for one, other in pairs):
            return every
    return 1


def alike_share(work: Sequence[int]) -> float:
    """The share of the intervals that do as much as the middle one."""
    if not work:
        return 1.0
    middle = sorted(work)[len(work) // 2]
    return sum(are_alike(one, middle) for one in work) / len(work)


def _hardly_differ(work: Sequence[int]) -> bool:
    """Whether intervals that do not do as much as the middle one make no difference together."""
    if alike_share(work) == 1:
        return True
    middle = sorted(work)[len(work) // 2]
    return sum(abs(one - middle) for one in work) < _LITTLE_SHARE * sum(work)


def are_alike(one: int, other: int, ranks: int = 1) -> bool:
    """Whether so many launches, of several ranks together, are equal work."""
    return abs(one - other) <= max(_ALIKE_LAUNCHES * ranks, _ALIKE_SHARE * max(one, other))
