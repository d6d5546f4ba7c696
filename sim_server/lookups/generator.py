"""Batches of indices with given statistics, so that nobody needs the data they are of.

A batch has as many rows of each number of occurrences as its histogram says, which rows these are
is chance, and so is their order. Equal seeds give equal batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import NDArray

from sim_server.lookups.histogram import LOWEST, ReuseHistogram
from sim_server.lookups.pooling import Integers, Pooling
from sim_server.lookups.working_set import Popularity

_HALVINGS = 50
_ENOUGH_PLACES = 4096


@dataclass(frozen=True)
class Batch:
    """`lengths`: of each sample. `indices`: of all samples, one after the other."""

    indices: Integers
    lengths: Integers

    @property
    def offsets(self) -> Integers:
        """Where each sample's indices begin, and the end."""
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.lengths)])


class Generator:
    """Batches of one table.

    `correlation`: of the rows of a batch, the share that the one before had, too. It holds for
    histograms; of a distribution the batches are independent.
    """

    def __init__(
        self,
        statistics: ReuseHistogram | Popularity,
        rows: int,
        pooling: Pooling,
        seed: int = 0,
        correlation: float = 0.0,
    ) -> None:
        self._statistics = statistics
        self._rows = rows
        self._pooling = pooling
        self._random = np.random.default_rng(seed)
        self._correlation = correlation
        self._scatter = _Scatter(rows, self._random)
        self._before: Integers = np.empty(0, dtype=np.int64)

    def batch(self, samples: int) -> Batch:
        """The next batch."""
        lengths = self._pooling.lengths(samples, self._random)
        return Batch(self.indices(int(lengths.sum())), lengths)

    def indices(self, lookups: int) -> Integers:
        """The indices of the next batch, which has so many lookups."""
        statistics = self._statistics
        if isinstance(statistics, Popularity):
            return self._scatter.rows(_drawn(statistics, lookups, self._random))
        occurrences = occurrences_of(statistics, lookups, self._rows, self._random)
        rows = self._next_rows(len(occurrences))
        return self._random.permutation(np.repeat(rows, occurrences))

    def _next_rows(self, count: int) -> Integers:
        """Different rows: a share of those before, the others new while there are any."""
        keep = min(count, round(self._correlation * len(self._before)))
        kept = self._random.choice(self._before, keep, replace=False)
        fresh = self._scatter.fresh(count - keep, self._before)
        left = count - keep - len(fresh)
        if left:
            rest = np.setdiff1d(self._before, kept)
            fresh = np.concatenate([fresh, self._random.choice(rest, left, replace=False)])
        self._before = self._random.permutation(np.concatenate([kept, fresh]))
        return self._before


class _Scatter:
    """All rows of a table, each once, in an order without a pattern that matters."""

    def __init__(self, rows: int, random: np.random.Generator) -> None:
        self._rows = rows
        self._step = int(random.integers(rows) | 1)
        while gcd(self._step, rows) != 1:
            self._step += 1
        self._start = int(random.integers(rows))
        self._next = 0

    def rows(self, places: Integers) -> Integers:
        """The rows at these places, from 0."""
        # Rows and steps are below 2 ** 31 in tables that there are; the product fits.
        return (places * self._step + self._start) % self._rows

    def fresh(self, count: int, taken: Integers) -> Integers:
        """The next rows that are not taken; fewer if the table has no more."""
        found: list[Integers] = []
        missing, seen = count, 0
        while missing > 0 and seen < self._rows:
            ahead = min(self._rows - seen, missing + len(taken) // 8 + 1)
            places = np.arange(self._next, self._next + ahead, dtype=np.int64) % self._rows
            rows = self.rows(places)
            free = np.flatnonzero(~np.isin(rows, taken))[:missing]
            used = ahead if len(free) < missing else int(free[-1]) + 1
            self._next, seen = (self._next + used) % self._rows, seen + used
            found.append(rows[free])
            missing -= len(free)
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def _drawn(statistics: Popularity, lookups: int, random: np.random.Generator) -> Integers:
    """Places, by falling probability, of so many independent lookups."""
    masses = statistics.counts * statistics.probabilities
    ends = np.cumsum(masses)
    group = np.searchsorted(ends, random.random(lookups) * ends[-1], side="right")
    group = np.minimum(group, len(masses) - 1)
    starts = np.concatenate([[0], np.cumsum(statistics.counts)[:-1]]).astype(np.int64)
    within = random.random(lookups) * statistics.counts[group]
    places: Integers = starts[group] + within.astype(np.int64)
    return places


def occurrences_of(
    histogram: ReuseHistogram, lookups: int, rows: int, random: np.random.Generator
) -> Integers:
    """How often each different row of a batch of so many lookups occurs.

    Of the histogram's number of lookups it is the histogram; a smaller batch is a sample of that
    one; a larger one has the rows that Heaps' law says, each more often.
    """
    whole = max(float(lookups), histogram.lookups)
    distinct = min(rows, max(1, round(histogram.occurrences(rows).distinct(whole))))
    counts = _whole(histogram.counts() / histogram.distinct * distinct)
    # Of whole rows, so that few of them have the lookups of their bin, too.
    means = histogram.means(counts / distinct * histogram.distinct)
    spread = np.concatenate(
        [
            _spread(mean, low, count)
            for count, mean, low in zip(counts, means, LOWEST, strict=True)
            if count
        ]
    )
    occurrences = _whole(spread * max(1.0, whole / float(spread.sum())))
    if lookups < whole:
        occurrences = random.binomial(occurrences, lookups / whole)
        occurrences = occurrences[occurrences > 0]
        if not len(occurrences):
            return np.full(1, lookups, dtype=np.int64)
    return _summing_to(occurrences, lookups)


def _whole(values: NDArray[np.float64]) -> Integers:
    """Whole numbers with the same sum, each its value rounded up or down."""
    ends = np.floor(np.cumsum(values) + 0.5).astype(np.int64)
    return np.diff(ends, prepend=0)


def _spread(mean: float, low: float, count: int) -> NDArray[np.float64]:
    """Occurrences of so many rows of the bin that begins at `low`, with this mean."""
    high = max(2 * (low - 1), low)
    if mean > high:  # of the last bin, which has no end
        high = mean * mean / low
    places = (np.arange(count) + 0.5) / count
    return np.asarray(low * (high / low) ** (places ** _power_for(mean, low, high, places)))


def _power_for(mean: float, low: float, high: float, places: NDArray[np.float64]) -> float:
    """The p with which low * (high / low) ** (places ** p) has this mean; 1 is even in
    logarithms.
    """
    some = places[:: 1 + len(places) // _ENOUGH_PLACES]
    least, most = -20.0, 20.0
    for _ in range(_HALVINGS):
        middle = (least + most) / 2
        value = np.mean(low * (high / low) ** (some ** np.exp(middle)))
        least, most = (middle, most) if value > mean else (least, middle)
    return float(np.exp(most))


def _summing_to(occurrences: Integers, lookups: int) -> Integers:
    """The same with a sum of `lookups`: rows that occur often take or give what is over."""
    over = lookups - int(occurrences.sum())
    order = np.argsort(occurrences)[::-1]
    heavy = order[: max(1, len(order) // 1000)]
    weights = occurrences[heavy] / occurrences[heavy].sum()
    share = np.trunc(weights * over).astype(np.int64)
    occurrences[heavy] = np.maximum(1, occurrences[heavy] + share)
    over = lookups - int(occurrences.sum())
    for place in order:
        if not over:
            break
        change = max(over, 1 - int(occurrences[place]))
        occurrences[place] += change
        over -= change
    return occurrences[occurrences > 0]
