"""Times of collectives on a cluster as curves over their size, so that a search can ask often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phantora_py.bench.model import Bench
from phantora_py.bench.operations import DATA_TYPES, find_operation
from sim_server.cluster import Cluster, Layout

Array = NDArray[np.float64]
# Sizes that are simulated; between them time is interpolated, beyond them in proportion.
_SIZES_BYTES = tuple(2**n for n in range(12, 33, 2))


@dataclass(frozen=True, eq=False)
class Curve:
    """Time of a collective by its size as nccl-tests has it; never shorter for more."""

    sizes_bytes: Array
    times_ns: Array

    def time_ns(self, sizes_bytes: ArrayLike) -> Array:
        """Of each size; nothing takes nothing."""
        sizes = np.asarray(sizes_bytes, dtype=np.float64)
        if not len(self.sizes_bytes):
            return np.zeros_like(sizes)
        times = np.interp(sizes, self.sizes_bytes, self.times_ns)
        beyond = np.maximum(1.0, sizes / self.sizes_bytes[-1])
        return np.asarray(np.where(sizes > 0, times * beyond, 0.0))


@dataclass(frozen=True, eq=False)
class Level:
    """Collectives where so many ranks share a column's rows: among these ranks, and then among
    those at the same place of all such groups. All groups communicate at the same time.
    """

    split: int
    reduce_scatter: Curve
    all_gather: Curve
    all_to_all: Curve


@dataclass(frozen=True, eq=False)
class Curves:
    """Of all ranks together, and by level, of which the first splits nothing."""

    all_reduce: Curve
    levels: tuple[Level, ...]

    @property
    def all_to_all(self) -> Curve:
        """Of all ranks together."""
        return self.levels[0].all_to_all


def measure(cluster: Cluster, layout: Layout) -> Curves:
    """Simulates the collectives on the idle cluster: rows are split over nothing, nodes or all."""
    everyone = tuple(range(layout.ranks))
    levels = []
    for split in sorted({1, layout.gpus_per_node, layout.ranks}):
        groups = [everyone[first : first + split] for first in everyone[::split]]
        across = [everyone[place::split] for place in range(split)]
        levels.append(
            Level(
                split,
                _curve(cluster, layout, "reduce_scatter", groups),
                _curve(cluster, layout, "all_gather", groups),
                _curve(cluster, layout, "alltoall", across),
            )
        )
    return Curves(_curve(cluster, layout, "all_reduce", [everyone]), tuple(levels))


def _curve(cluster: Cluster, layout: Layout, name: str, groups: Sequence[tuple[int, ...]]) -> Curve:
    """Until the last of the groups has ended, which start together."""
    if len(groups[0]) < 2:
        return Curve(np.empty(0), np.empty(0))
    bench = Bench(cluster, layout, {}, find_operation(name))
    measured = [bench.run(groups, size, DATA_TYPES["float"]) for size in _SIZES_BYTES]
    rows = [[row for row in one if row is not None] for one in measured]
    found = [(row[0].size_bytes, max(one.time_us for one in row) * 1e3) for row in rows if row]
    sizes, times = zip(*found, strict=True)
    return Curve(np.array(sizes, dtype=float), np.maximum.accumulate(np.array(times)))
