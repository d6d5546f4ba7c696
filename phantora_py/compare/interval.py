"""How sure the median of a run's iterations is, and the ratio of two of them.

Owns the arithmetic. What an interval leaves out, above all how far the models are from hardware,
is for `comparison` to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# The usual 95 %, half of the rest on each side.
_TAIL = 0.025


@dataclass(frozen=True)
class Interval:
    """Where the median of further iterations of the same kind would lie."""

    low_ns: int
    high_ns: int
    confidence: float


@dataclass(frozen=True)
class Spread:
    """The iterations of a run. `interval`: None if there is one only."""

    median_ns: int
    interval: Interval | None


@dataclass(frozen=True)
class SpeedUp:
    """How many times as fast as the first. The rest is None where a spread is not known."""

    value: float
    low: float | None
    high: float | None
    distinguishable: bool | None
    """The intervals do not overlap."""


def spread(durations_ns: Sequence[int]) -> Spread:
    """Median and interval of at least one iteration."""
    return Spread(int(np.median(durations_ns)), _median_interval(durations_ns))


def _median_interval(durations_ns: Sequence[int]) -> Interval | None:
    """Between two of the iterations, in order: that the true median is beyond all but `dropped` of
    them is as likely as at most so many heads of as many coins. Nothing is assumed about the
    distribution. Fewer than six iterations do not reach 95 %, and give all that they have.
    """
    count = len(durations_ns)
    if count < 2:
        return None
    ordered = sorted(durations_ns)
    dropped, ways, tail = 0, 1, 0.5**count
    while True:
        ways = ways * (count - dropped) // (dropped + 1)
        wider = tail + ways / 2**count
        if wider > _TAIL:
            break
        dropped, tail = dropped + 1, wider
    return Interval(int(ordered[dropped]), int(ordered[-1 - dropped]), 1 - 2 * tail)


def speed_up(first: Spread, this: Spread, work: float = 1.0) -> SpeedUp:
    """`work`: how many times as much as the first an iteration of `this` does."""
    value = work * first.median_ns / this.median_ns
    if first.interval is None or this.interval is None:
        return SpeedUp(value, None, None, None)
    low = work * first.interval.low_ns / this.interval.high_ns
    high = work * first.interval.high_ns / this.interval.low_ns
    return SpeedUp(value, low, high, distinguishable=not low <= 1 <= high)
