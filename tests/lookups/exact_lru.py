"""An exact LRU cache, and lookups drawn from distributions without the code under test."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


def drawn(rows: int, exponent: float, lookups: int, random: np.random.Generator) -> Integers:
    """Rows, each in proportion to (row + 1) ** -exponent."""
    ends = np.cumsum(np.arange(1, rows + 1) ** -float(exponent))
    places: Integers = np.searchsorted(ends, random.random(lookups) * ends[-1])
    return places


def measured(
    tables: Sequence[int], keys: Sequence[int], capacity: int, first: int = 0
) -> list[float]:
    """The hit rate of each table's lookups; those before `first` only fill the cache."""
    cache: OrderedDict[tuple[int, int], None] = OrderedDict()
    hits, seen = np.zeros(max(tables) + 1), np.zeros(max(tables) + 1)
    for place, key in enumerate(zip(tables, keys, strict=True)):
        hit = key in cache
        cache[key] = None
        cache.move_to_end(key)
        if len(cache) > capacity:
            cache.popitem(last=False)
        if place >= first:
            hits[key[0]] += hit
            seen[key[0]] += 1
    return [float(rate) for rate in hits / seen]
