"""Distributions of lookups that a few figures give: uniform, Zipf's, FBGEMM's.

Rows of nearly equal probability are one group, so that a table of 10^9 rows has some hundreds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from sim_server.lookups.working_set import Array, Popularity

# Rows up to here are groups of their own; further groups are longer by this share each.
_SINGLE = 256
_GROWTH = 0.02
# With it nearly all lookups are of the first row.
_STEEPEST = 16.0
_MOST_ROWS_LOG2 = 40.0
_HALVINGS = 40


def uniform(rows: int, sound: bool = True) -> Popularity:
    """All rows alike."""
    return Popularity(np.array([float(rows)]), np.array([1.0 / rows]), sound)


def zipf(rows: int, exponent: float) -> Popularity:
    """Row k (from 1) is looked up in proportion to k ** -exponent."""
    return shifted_zipf(rows, exponent, 0.0, ())


@lru_cache(maxsize=1024)
def repeating(rows: int, lookups: int, distinct: int) -> Popularity:
    """Of a batch with so many different rows: Zipf's, with the exponent that has as many in the
    mean; uniform, where that has no more.
    """
    if uniform(rows).distinct(lookups) <= distinct:
        return uniform(rows)
    return zipf(rows, _least(0.0, _STEEPEST, lambda one: zipf(rows, one), lookups, distinct))


@lru_cache(maxsize=1024)
def repeating_evenly(lookups: int, distinct: int) -> Popularity:
    """The same of a table of which nobody knows how many rows it has: so many, all alike, that
    the batch has as many different ones in the mean.
    """

    def table(size: float) -> Popularity:
        return uniform(max(1, round(2.0**-size)))

    return table(_least(-_MOST_ROWS_LOG2, 0.0, table, lookups, distinct))


def _least(
    low: float, high: float, of: Callable[[float], Popularity], lookups: int, distinct: int
) -> float:
    """The parameter from which on a batch has no more different rows; the more, the fewer."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if of(middle).distinct(lookups) > distinct:
            low = middle
        else:
            high = middle
    return high


def shifted_zipf(
    rows: int, exponent: float, shift: float, heavy_hitters: Sequence[float]
) -> Popularity:
    """FBGEMM's description of a table's indices: some rows with a probability each, the others as
    (k + shift) ** -exponent, k from 1.

    The heavy hitters are the first rows; their probabilities sum to less than 1 and leave the rest
    to the others. Source: the TBE benchmark of FBGEMM (`indices_distribution`).
    """
    hitters = np.asarray(heavy_hitters, dtype=np.float64)
    left = rows - len(hitters)
    if left <= 0:
        return Popularity(np.ones(len(hitters)), hitters / hitters.sum())
    starts = _group_starts(left)
    counts = np.diff(starts)
    masses = _masses(starts, exponent, shift)
    masses *= (1 - hitters.sum()) / masses.sum()
    return Popularity(
        np.concatenate([np.ones(len(hitters)), counts]),
        np.concatenate([hitters, masses / counts]),
    )


def _group_starts(rows: int) -> Array:
    """The first row of each group, from 1, and the end."""
    starts = list(range(1, min(rows, _SINGLE) + 1))
    while (following := starts[-1] + max(1, int(starts[-1] * _GROWTH))) <= rows:
        starts.append(following)
    return np.array([*starts, rows + 1], dtype=np.float64)


def _masses(starts: Array, exponent: float, shift: float) -> Array:
    """Sums of (k + shift) ** -exponent of each group: single rows exactly, others as integrals."""
    edges = starts - 0.5 + shift
    low, high = edges[:-1], edges[1:]
    if abs(exponent - 1) < 1e-9:
        sums = np.log(high / low)
    else:
        power = 1 - exponent
        sums = (high**power - low**power) / power
    single = np.diff(starts) == 1
    sums[single] = (starts[:-1][single] + shift) ** -exponent
    return np.asarray(sums)
