"""Reuse as public statistics give it: of the different rows of a batch, by how often they occur.

17 bins: once, twice, 3 to 4, 5 to 8, ... 16,385 to 32,768, and more often. Source of the bins:
facebookresearch/dlrm_datasets, `locality_stats.txt`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sim_server.errors import UsageError
from sim_server.lookups.working_set import Array, Occurrences

BINS = 17
# The bins, without the first number and with the last: (0, 1], (1, 2], (2, 4] ...
_LOWER = np.array([0.0, *(2.0**n for n in range(BINS - 1))])
_UPPER = np.array([*(2.0**n for n in range(BINS - 1)), np.inf])
# The fewest occurrences of each bin.
LOWEST = _LOWER + 1
# Published shares have three decimals.
_ROUNDING = 0.0005
_HALVINGS = 60


@dataclass(frozen=True)
class ReuseHistogram:
    """A batch of one table: `lookups` of `distinct` rows; `rows` are the shares of these by bin.

    `masses`: of the lookups, by bin of their rows; None where nobody says. Both sum to 1.
    """

    lookups: float
    distinct: float
    rows: tuple[float, ...]
    masses: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        self._check("shares", self.rows)
        if self.masses is not None:
            self._check("lookup_shares", self.masses)
        if not 0 < self.distinct <= self.lookups:
            raise UsageError(
                f"a histogram of {self.lookups:g} lookups has {self.distinct:g} distinct rows: "
                "there must be at least one, and no more than lookups"
            )

    @staticmethod
    def _check(name: str, shares: Sequence[float]) -> None:
        if len(shares) != BINS:
            raise UsageError(f"{name} has {len(shares)} bins; a reuse histogram has {BINS}")
        if not all(0 <= share <= 1 for share in shares):
            raise UsageError(f"{name} must be between 0 and 1; there is {min(shares):g}")
        if abs(sum(shares) - 1) > BINS * _ROUNDING:
            raise UsageError(f"{name} sum to {sum(shares):g}, not to 1")

    def occurrences(self, table_rows: float) -> Occurrences:
        """The batch, each bin with the mean of how often its rows occur.

        Raises: UsageError if no such batch has so many lookups.
        """
        counts = self.counts()
        kept = counts > 0
        means = self.means(counts)
        return Occurrences(counts[kept], means[kept], max(table_rows, self.distinct))

    def counts(self) -> Array:
        """Distinct rows by bin.

        A share that cannot be, since the bin's lookups are too many or too few for it, was hidden
        by rounding: within what rounding leaves open, it is that of rows in the bin's middle.
        """
        shares = np.array(self.rows)
        if self.masses is not None:
            masses, reuse = np.array(self.masses), self.lookups / self.distinct
            lower, upper = self._edges()
            middle = np.sqrt(lower * upper)
            middle[-1] = 2 * _LOWER[-1]
            least = (masses - _ROUNDING) * reuse / upper
            most = (masses + _ROUNDING) * reuse / lower
            hidden = (shares < least) | (shares > most)
            shares[hidden] = np.clip(
                masses[hidden] * reuse / middle[hidden],
                np.maximum(shares[hidden] - _ROUNDING, 0),
                shares[hidden] + _ROUNDING,
            )
        return np.asarray(shares / shares.sum() * self.distinct)

    def means(self, counts: Array) -> Array:
        """How often a row of each bin occurs in the mean; together they make all lookups."""
        kept = counts > 0
        lower, upper = self._edges()
        if self.masses is not None:
            wanted = np.array(self.masses) / sum(self.masses) * self.lookups
            means = np.divide(wanted, counts, out=lower.copy(), where=kept)
            means = np.clip(means, lower, upper)
            return _balanced(counts, means, lower, upper, self.lookups)
        return _balanced(counts, np.sqrt(lower * upper), lower, upper, self.lookups)

    def _edges(self) -> tuple[Array, Array]:
        """The fewest and most occurrences of a bin's rows."""
        longest = max(self.lookups, 2 * float(_LOWER[-1]))
        return LOWEST.copy(), np.where(np.isinf(_UPPER), longest, _UPPER)


def _balanced(counts: Array, means: Array, lower: Array, upper: Array, lookups: float) -> Array:
    """The means moved within their bins so that `counts @ means` is `lookups`."""
    if not counts @ lower <= lookups * 1.03 or not counts @ upper >= lookups * 0.97:
        raise UsageError(
            f"a histogram with these shares has {counts @ lower:.4g} to {counts @ upper:.4g} "
            f"lookups, not {lookups:.4g}; shares that rounding hides in the last bins can be "
            "given as lookup_shares"
        )
    # 0: all at the lower edge; 1: as they are; 2: all at the upper edge.
    low, high = 0.0, 2.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if counts @ _moved(means, lower, upper, middle) > lookups:
            high = middle
        else:
            low = middle
    return _moved(means, lower, upper, low)


def _moved(means: Array, lower: Array, upper: Array, place: float) -> Array:
    if place <= 1:
        return np.asarray(lower * (means / lower) ** place)
    return np.asarray(means * (upper / means) ** (place - 1))


def bin_of(occurrences: ArrayLike) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The bin of rows that occur so often, 1 at least."""
    return np.searchsorted(_UPPER, np.asarray(occurrences), side="left")


def histogram_of(indices: ArrayLike) -> ReuseHistogram:
    """The statistics of a batch of indices. Raises: UsageError if there are none."""
    _, occurrences = np.unique(np.asarray(indices).ravel(), return_counts=True)
    if not len(occurrences):
        raise UsageError("a batch without lookups has no histogram")
    bins = bin_of(occurrences)
    lookups = int(occurrences.sum())
    rows = np.bincount(bins, minlength=BINS) / len(occurrences)
    masses = np.bincount(bins, weights=occurrences, minlength=BINS) / lookups
    return ReuseHistogram(lookups, len(occurrences), tuple(rows.tolist()), tuple(masses.tolist()))
