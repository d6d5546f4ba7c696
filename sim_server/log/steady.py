"""Notices that the iteration time has settled, from virtual times alone.

An iteration ends as in the report (sim_server/log/iterations.py): when every host has passed its
mark and the devices have done what was issued before. It is looked at once that is certain, in the
order of the first rank's marks, so that it does not matter when records come.

What ends iterations may change later: a program that looks for a learning rate steps one optimizer
to find it and another one to train. Then the time settles once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from sim_server._engine import Announcement
from sim_server.log.history import HOST_WAIT_SPAN
from sim_server.log.iterations import EVERY_RANK, PRECEDENCE, Key, RankMarks, Rule, choose
from sim_server.settings import Choice, Settings, parse_choice

# The time has settled when so many iterations in a row, the first not among them, are so much alike
# (assumed: less than other errors of a simulation).
ALIKE_ITERATIONS = 5
ALIKE_SHARE = 0.01


@dataclass(frozen=True)
class Steady:
    """The iteration time has settled."""

    iterations: int
    """After which it had, the first one counted."""
    time_ns: int
    """When the last of them ended."""
    median_ns: int
    """Of the last ones, which were alike."""


def steady_watch(settings: Settings, is_last: bool, iterations: int | None) -> SteadyWatch:
    """For a run with these settings; arguments as of `SteadyWatch`."""
    choice = None if settings.iteration is None else parse_choice(settings.iteration)
    return SteadyWatch(settings.live_ranks, choice, is_last=is_last, iterations=iterations)


class SteadyWatch:
    """Follows the iterations of a run, by the rule for its first rank."""

    def __init__(
        self,
        ranks: Iterable[int],
        choice: Choice | None = None,
        *,
        is_last: bool = False,
        iterations: int | None = None,
    ) -> None:
        """`ranks`: those that run, 0 first. `is_last`: the run ends when the time has settled.
        `iterations`: it is taken to have after so many, as in another simulation of the run.
        """
        self._choice = choice
        self._settles_after = iterations
        self._is_last = is_last or choice is not None
        self._marks = {rank: RankMarks() for rank in ranks}
        self._passed = RankMarks()
        """Those of the first rank as soon as it leaves them, without the work between."""
        self._rule: Rule | None = None
        """What ends iterations, by what is known so far."""
        self._open: tuple[int, Rule] | None = None
        """An iteration that has ended on the first rank: its number, and by what rule."""
        self._awaits = 0
        """The rank whose next mark will tell more."""
        self._awaits_ns = 0
        """Nor is anything known before that."""
        self.steady: Steady | None = None
        """As it settled last."""
        self._settled_rule: Rule | None = None
        """What ended the iterations that settled."""

    def hear(self, announcement: Announcement, name: str) -> None:
        """Takes the marks that ranks announce."""
        mark = announcement.host_time_ns, announcement.id, name
        if not self._is_over:
            self._marks[announcement.rank].hear(*mark)
        if announcement.rank == 0:
            self._passed.hear(*mark)
            self._passed.take()
            self._passed.forget()

    @property
    def _is_over(self) -> bool:
        return self.steady is not None and self._is_last

    @property
    def iterations(self) -> int:
        """How many the first rank's host has ended, the first one counted; 0 if nothing is known
        to end them. Other threads may ask, too.
        """
        return 0 if self._rule is None else self._passed.count(self._rule)

    def is_due(self, now_ns: int, oldest_issue_ns: Callable[[int], int]) -> bool:
        """Whether an iteration may have ended: then `see` and `judge` are to be called.

        `oldest_issue_ns`: of a rank's work that is not done.
        """
        if self._is_over or now_ns <= self._awaits_ns:
            return False
        if self._awaits_ns:
            return True
        time_ns = self._marks[self._awaits].next_time_ns()
        return time_ns is not None and time_ns < min(now_ns, oldest_issue_ns(self._awaits))

    def see(self, spans: np.ndarray) -> None:
        """Takes finished work: all of it, before iterations that it belongs to are judged."""
        spans = spans[spans["kind"] != HOST_WAIT_SPAN]
        if self._is_over or not len(spans):
            return
        spans = spans[np.argsort(spans["rank"], kind="stable")]
        ranks, first = np.unique(spans["rank"], return_index=True)
        for rank, rows in zip(ranks.tolist(), np.split(spans, first[1:]), strict=True):
            self._marks[rank].add_work(rows["issue_ns"], rows["end_ns"])

    def judge(self, now_ns: int, oldest_issue_ns: Callable[[int], int]) -> Steady | None:
        """Looks at the iterations that ended before `now_ns`. Returns what it found, once."""
        limits_ns = {rank: min(now_ns, oldest_issue_ns(rank)) for rank in self._marks}
        for rank, marks in self._marks.items():
            while rank and _is_before(marks.next_time_ns(), limits_ns[rank]):
                marks.take()
        self._awaits = self._awaits_ns = 0
        before = self.steady
        while self.steady is before:
            if self._open is None and not self._find_end(limits_ns[0]):
                break
            if self._open is not None and not self._judge_end(*self._open, now_ns):
                break
            self._open = None
        for marks in self._marks.values():
            marks.forget()
        return None if self.steady is before else self.steady

    def _find_end(self, limit_ns: int) -> bool:
        """Takes marks of the first rank up to one with which an iteration ends there."""
        marks = self._marks[0]
        while _is_before(marks.next_time_ns(), limit_ns):
            key = marks.take()
            if key is None or not self._may_change(key):
                continue
            rule = choose(marks, self._choice)
            if rule is None or self._is_early(rule):
                continue
            self._rule = rule
            if rule == self._settled_rule or (rule.by, rule.name) != key:
                continue
            ends = marks.ends(rule)
            if len(ends) > ALIKE_ITERATIONS and ends[-1] == marks.taken - 1:
                self._open = marks.count(rule), rule
                return True
        return False

    def _may_change(self, key: Key) -> bool:
        """Whether other iterations may end with a mark than those that have settled. Of what ended
        these, several may turn out to be one: that is looked at ever more seldom.
        """
        settled = self._settled_rule
        if settled is None or self._rule != settled:
            return True
        if key == (settled.by, settled.name):
            count = self._marks[0].series[key].count
            return not count & (count - 1)
        return PRECEDENCE.index(key[0]) <= PRECEDENCE.index(settled.by)

    def _is_early(self, rule: Rule) -> bool:
        """Whether what repeats may be the micro-batches before the first optimizer step."""
        kinds = {by for by, _ in self._marks[0].series}
        is_training = "backward" in kinds and "optimizer" not in kinds
        return is_training and self._choice is None and rule.by != "marker"

    def _judge_end(self, count: int, rule: Rule, now_ns: int) -> bool:
        """Whether it is known when this iteration ended; then the watch may have found what it
        waits for.
        """
        time_ns = self._time_ns(0, count, rule)
        ends_ns = np.zeros(ALIKE_ITERATIONS + 1, np.int64)
        for rank, marks in self._marks.items():
            key = (rule.by, rule.name)
            places = marks.series[key].places if key in marks.series else []
            if not places or marks.time_ns(places[0]) > time_ns:
                if rule.by in EVERY_RANK:
                    return True  # it does not end on every rank
                continue
            over = rule.by != "optimizer" or marks.is_over(rule.name)
            ahead = marks.count(rule) - count
            if ahead < 0 or (ahead == 0 and not over):
                self._awaits = rank
                return False
            ends = marks.ends(rule)[: -ahead or None][-len(ends_ns) :]
            if len(ends) < len(ends_ns):
                return True
            ends_ns = np.maximum(ends_ns, [marks.end_ns(place) for place in ends])
        if ends_ns[-1] >= now_ns:
            self._awaits_ns = int(ends_ns[-1])
            return False  # not all that ends then need be known
        self._see_times(count, np.maximum.accumulate(ends_ns))
        return True

    def _time_ns(self, rank: int, count: int, rule: Rule) -> int:
        marks = self._marks[rank]
        return marks.time_ns(marks.ends(rule)[count - marks.count(rule) - 1])

    def _see_times(self, count: int, ends_ns: np.ndarray) -> None:
        durations_ns = np.diff(ends_ns)
        median_ns = int(np.median(durations_ns))
        are_alike = np.ptp(durations_ns) <= ALIKE_SHARE * median_ns
        if are_alike if self._settles_after is None else count == self._settles_after:
            self._settled_rule = self._rule
            self.steady = Steady(count, int(ends_ns[-1]), median_ns)


def _is_before(time_ns: int | None, limit_ns: int) -> bool:
    return time_ns is not None and time_ns < limit_ns
