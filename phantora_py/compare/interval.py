"""How sure a run's iteration time is, and the ratio of two of them.

Two things are put together: the spread of the iterations, and the models' own errors, of which
those that both runs have in common cancel (docs/compare.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

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


Doubts = Mapping[str, tuple[float, float]]
"""By class of work: the share of the iteration by which it may be shorter, and longer."""


@dataclass(frozen=True)
class SpeedUp:
    """How many times as fast as the first. The rest is None where a spread is not known."""

    value: float
    low: float | None
    high: float | None
    distinguishable: bool | None
    """1 is not between low and high."""


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


def speed_up(
    first: Spread,
    this: Spread,
    work: float = 1.0,
    doubts: tuple[Doubts, Doubts] = ({}, {}),
    common: bool = True,
) -> SpeedUp:
    """`work`: how many times as much as the first an iteration of `this` does. `doubts`: of the
    first and of this. `common`: both runs are on the same models, whose errors are the same.
    """
    value = work * first.median_ns / this.median_ns
    before, after = first.interval, this.interval
    if before is None or after is None or min(before.low_ns, after.low_ns) <= 0:
        return SpeedUp(value, None, None, None)
    slower, faster = _model_range(*doubts, common)
    low = work * before.low_ns / after.high_ns
    high = work * before.high_ns / after.low_ns
    if slower or faster:
        low, high = value / _apart(value / low, slower), value * _apart(high / value, faster)
    return SpeedUp(value, low, high, distinguishable=not low <= 1 <= high)


def _apart(factor: float, by: float) -> float:
    """A factor of at least 1 with a further error, of its logarithm, that is independent."""
    return exp(sqrt(log(factor) ** 2 + by**2))


def _model_range(first: Doubts, this: Doubts, common: bool) -> tuple[float, float]:
    """By how much the logarithm of the speed-up may be less, and more, because models err: the sum
    over classes, which are independent. If it is common, an error of a class is in both runs.
    """
    less = more = 0.0
    for kernel_class in sorted({*first, *this}):
        was_shorter, was_longer = first.get(kernel_class, (0.0, 0.0))
        is_shorter, is_longer = this.get(kernel_class, (0.0, 0.0))
        if common:
            shifts = [
                log(1 + was_longer) - log(1 + is_longer),
                log(1 - was_shorter) - log(1 - is_shorter),
            ]
            less += min(0.0, *shifts) ** 2
            more += max(0.0, *shifts) ** 2
        else:
            less += log(1 - was_shorter) ** 2 + log(1 + is_longer) ** 2
            more += log(1 + was_longer) ** 2 + log(1 - is_shorter) ** 2
    return sqrt(less), sqrt(more)
