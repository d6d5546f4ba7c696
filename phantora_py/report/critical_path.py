"""The critical path of an iteration: what it would have taken less time without.

Walks back from the end. Work begins when the last of what it waited for has happened: the work
before it, in its stream or by an event, or its host's call. Bytes move when the last rank has come,
so there the path goes on with that rank; a host goes on when what it waited for has ended, so there
the path goes on with that. Every instant of the iteration is on the path once (docs/report.md).
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from phantora_py.data import RunData
from phantora_py.data.operations import tracks_of
from phantora_py.report.stream_order import NOTHING, RankOrder, rank_order
from phantora_py.report.window import Window
from sim_server.errors import UsageError
from sim_server.log.history import COMMUNICATION_SPAN, HOST_WAIT_SPAN, KERNEL_SPAN


class Cause(Enum):
    """What the path is made of."""

    KERNELS = "kernels"
    COPIES = "copies"
    """Fills too."""
    COMMUNICATION = "communication"
    """While bytes move."""
    HOST = "host"
    """The program between two calls."""
    WAITING = "waiting"
    """For something that is not on the devices: a copy engine, a new communicator, other ranks
    outside the GPU."""


@dataclass(frozen=True)
class Step:
    """A stretch of the path. Units: ns."""

    rank: int
    cause: Cause
    begin_ns: int
    end_ns: int
    span: int = NOTHING
    """Index of `RunData.spans_of(rank)`; NOTHING for the host's time and for waiting."""

    @property
    def length_ns(self) -> int:
        """How much of the iteration it is."""
        return self.end_ns - self.begin_ns


def critical_path(data: RunData, window: Window) -> list[Step]:
    """The path through a window, the last iteration as a rule, from its begin to its end."""
    steps = [step for step in _Walk(data, window).steps() if step.length_ns > 0]
    return steps[::-1]


def known_path(data: RunData, window: Window) -> list[Step]:
    """Likewise; empty if the run broke off, for then spans may have come without their records."""
    return [] if data.broke_off else critical_path(data, window)


def times_by_cause(steps: Sequence[Step]) -> dict[str, int]:
    """How much of a path each cause is. Units: ns."""
    times_ns = {cause.value: 0 for cause in Cause}
    for step in steps:
        times_ns[step.cause.value] += step.length_ns
    return times_ns


class _Walk:
    """One way back. Ranks are read when the path first comes to them."""

    def __init__(self, data: RunData, window: Window) -> None:
        self._data = data
        self._begin_ns = max(window.begin_ns, 0)
        self._orders: dict[int, RankOrder] = {}
        self._rank = 0
        self._end_ns = self._time_ns = window.end_ns
        self._steps: list[Step] = []

    def steps(self) -> Iterator[Step]:
        """From the end to the begin."""
        self._rank, span = self._last()
        been: set[tuple[int, int]] = set()  # at this time
        while self._time_ns > self._begin_ns:
            after_ns = self._time_ns
            span = self._host() if span == NOTHING else self._work(span)
            if self._time_ns < after_ns:
                been.clear()
            elif (self._rank, span) in been:
                raise UsageError(
                    f"{self._data.path} is damaged: what rank {self._rank} did at {after_ns} ns "
                    "waited for itself"
                )
            been.add((self._rank, span))
        yield from self._steps

    def _last(self) -> tuple[int, int]:
        """The rank that the window's end is the end of, and its work that ended then, if any: the
        first such rank.
        """
        end_ns, spans = self._end_ns, self._data.spans
        ended = spans["rank"][(spans["end_ns"] == end_ns) & (spans["kind"] != HOST_WAIT_SPAN)]
        if len(ended):
            rank = int(ended.min())
            own = self._order(rank).spans
            is_last = (own["end_ns"] == end_ns) & (own["kind"] != HOST_WAIT_SPAN)
            return rank, int(np.flatnonzero(is_last)[-1])
        marked = [rank for rank, time_ns, _, _ in self._data.markers if time_ns == end_ns]
        return min(marked, default=0), NOTHING

    def _order(self, rank: int) -> RankOrder:
        if rank not in self._orders:
            self._orders[rank] = rank_order(self._data, rank)
        return self._orders[rank]

    def _go(self, cause: Cause, begin_ns: int, span: int = NOTHING) -> None:
        """Back to `begin_ns`, or to the window's begin."""
        begin_ns = max(begin_ns, self._begin_ns)
        if begin_ns < self._time_ns:
            self._steps.append(Step(self._rank, cause, begin_ns, self._time_ns, span))
            self._time_ns = begin_ns

    def _work(self, index: int) -> int:
        """From the end of work to what it waited for: a span, or NOTHING for the host."""
        span = self._order(self._rank).spans[index]
        if span["kind"] == COMMUNICATION_SPAN:
            index = self._communication(index)
            span = self._order(self._rank).spans[index]
        else:
            cause = Cause.KERNELS if span["kind"] == KERNEL_SPAN else Cause.COPIES
            self._go(cause, int(span["start_ns"]), index)
        order = self._order(self._rank)
        before, issue_ns = order.before[index], int(span["issue_ns"])
        before_ns = int(order.spans["end_ns"][before]) if before != NOTHING else -1
        # Work that could have begun before had no copy engine.
        self._go(Cause.WAITING, max(issue_ns, before_ns))
        return before if before_ns >= issue_ns else NOTHING

    def _communication(self, index: int) -> int:
        """The span of the rank that came last: this one's own if it was among them."""
        span = self._order(self._rank).spans[index]
        operation = self._data.operations[span["id"]]
        moves_ns = int(operation["moves_ns"])
        self._go(Cause.COMMUNICATION, moves_ns, index)
        if span["start_ns"] >= moves_ns:
            return index
        arrivals = zip(operation["arrivals_ns"], tracks_of(operation), strict=True)
        _, (rank, device) = max(arrivals, key=operator.itemgetter(0))
        self._rank = self._data.told.stand_in(rank)
        last = self._order(self._rank).operations.get((int(span["id"]), device))
        if last is None:
            raise UsageError(
                f"{self._data.path} is damaged: rank {self._rank} came last to operation "
                f"{span['id']} and has no part of it"
            )
        return last

    def _host(self) -> int:
        """From a host's call back to the end of its last wait, and what that waited for."""
        order = self._order(self._rank)
        spans = order.spans
        ends_ns = spans["end_ns"][order.waits]
        position = int(np.searchsorted(ends_ns, self._time_ns, side="right")) - 1
        if position < 0:
            self._host_time(order, self._begin_ns)
            return NOTHING
        wait = int(order.waits[position])
        self._host_time(order, int(ends_ns[position]))
        before = order.before[wait]
        begin_ns = int(spans["start_ns"][wait])
        if before != NOTHING and spans["end_ns"][before] > begin_ns:
            # It goes on with what the host waited for; what is after that took the host.
            self._go(Cause.HOST, int(spans["end_ns"][before]))
            return before
        self._go(Cause.WAITING, begin_ns)
        return NOTHING

    def _host_time(self, order: RankOrder, begin_ns: int) -> None:
        """Back to `begin_ns`, without what the rank waited outside meanwhile."""
        for from_ns, to_ns in reversed(order.outside):
            if begin_ns < to_ns <= self._time_ns:
                self._go(Cause.HOST, to_ns)
                self._go(Cause.WAITING, max(from_ns, begin_ns))
        self._go(Cause.HOST, begin_ns)
