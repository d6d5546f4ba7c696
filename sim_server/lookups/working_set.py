"""How many different rows so many lookups in a row touch: what all that a cache does follows from.

Of the working set function D(t) the derivative is the share of lookups whose row was not among the
t before, the miss rate of a cache that holds the rows of the last t lookups (Denning and Schwartz,
Communications of the ACM 15(3), 1972).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Lookups(Protocol):
    """The lookups of one table, as a process in the order of the lookups."""

    @property
    def rows(self) -> float:
        """Rows of the table, above 0."""

    @property
    def sound(self) -> bool:
        """False where the figures are no property of the table, but a guess."""

    def distinct(self, lookups: float) -> float:
        """Different rows that so many lookups in a row touch, in the mean. 0 of none."""

    def miss_rate(self, lookups: float) -> float:
        """Of lookups, those whose row was not among so many before. 1 with none before."""

    def most_frequent(self, lookups: float) -> float:
        """How often so many lookups touch the most frequent row, in the mean."""


@dataclass(frozen=True, eq=False)
class Popularity:
    """Each lookup is independent of those before: rows have a probability.

    Shape: `counts` and `probabilities` are of one length, a group of rows with equal probability
    each; sum(counts) is the table's rows and sum(counts * probabilities) is 1.
    """

    counts: Array
    probabilities: Array
    sound: bool = True

    @cached_property
    def rows(self) -> float:
        return float(self.counts.sum())

    def distinct(self, lookups: float) -> float:
        return float(-self.counts @ np.expm1(-self.probabilities * lookups))

    def miss_rate(self, lookups: float) -> float:
        masses = self.counts * self.probabilities
        return float(masses @ np.exp(-self.probabilities * lookups))

    def most_frequent(self, lookups: float) -> float:
        return float(self.probabilities.max() * lookups)


@dataclass(frozen=True, eq=False)
class Occurrences:
    """A batch of which is known how often each row occurs; in what order is chance.

    Shape: of `counts[i]` rows each occurs `occurrences[i]` times. Of more lookups than the batch
    has, new rows follow Heaps' law, with the exponent that the rows of one occurrence give (Good
    and Turing's estimate of a new row's probability), up to the rows of the table.
    """

    counts: Array
    occurrences: Array
    rows: float
    sound: bool = True

    @cached_property
    def lookups(self) -> float:
        """Of the batch."""
        return float(self.counts @ self.occurrences)

    @cached_property
    def _distinct(self) -> float:
        return float(self.counts.sum())

    @cached_property
    def _growth(self) -> float:
        """The exponent of Heaps' law at the batch's end."""
        return self._inner_miss_rate(self.lookups) * self.lookups / self._distinct

    def distinct(self, lookups: float) -> float:
        part = lookups / self.lookups
        if part > 1:
            return float(min(self.rows, self._distinct * part**self._growth))
        return float(self.counts @ -np.expm1(self.occurrences * _log_left(part)))

    def miss_rate(self, lookups: float) -> float:
        part = lookups / self.lookups
        if part <= 1:
            return self._inner_miss_rate(lookups)
        if self.distinct(lookups) >= self.rows:
            return 0.0
        return float(self._distinct / self.lookups * self._growth * part ** (self._growth - 1))

    def _inner_miss_rate(self, lookups: float) -> float:
        left = _log_left(lookups / self.lookups)
        # Of a row that occurs less than once in the mean, 0 is the least exponent.
        again = np.maximum(self.occurrences - 1, 0)
        shares = self.counts * self.occurrences / self.lookups
        return float(shares @ np.where(again > 0, np.exp(again * left), 1.0))

    def most_frequent(self, lookups: float) -> float:
        return float(self.occurrences.max() * lookups / self.lookups)


def _log_left(part: float) -> float:
    """Logarithm of what is left of 1; far down, but finite, of nothing."""
    return float(np.log1p(-min(part, 1 - 1e-15)))


@dataclass(frozen=True, eq=False)
class Sharded:
    """One of `parts` equal parts of a table's rows: it gets that part of the lookups."""

    whole: Lookups
    parts: int

    @property
    def rows(self) -> float:
        return self.whole.rows / self.parts

    @property
    def sound(self) -> bool:
        return self.whole.sound

    def distinct(self, lookups: float) -> float:
        return self.whole.distinct(lookups * self.parts) / self.parts

    def miss_rate(self, lookups: float) -> float:
        return self.whole.miss_rate(lookups * self.parts)

    def most_frequent(self, lookups: float) -> float:
        # The row is whole in one of the parts.
        return self.whole.most_frequent(lookups * self.parts)
