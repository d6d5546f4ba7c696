"""Times of collectives on a cluster as curves over their size, so that a search can ask often."""

from __future__ import annotations

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
class Curves:
    """Of all ranks together."""

    all_to_all: Curve
    reduce_scatter: Curve
    all_gather: Curve
    all_reduce: Curve


def measure(cluster: Cluster, layout: Layout) -> Curves:
    """Simulates the collectives on the idle cluster."""
    return Curves(
        *(
            _curve(cluster, layout, name)
            for name in ("alltoall", "reduce_scatter", "all_gather", "all_reduce")
        )
    )


def _curve(cluster: Cluster, layout: Layout, name: str) -> Curve:
    if layout.ranks < 2:
        return Curve(np.empty(0), np.empty(0))
    bench = Bench(cluster, layout, {}, find_operation(name))
    subsets = [tuple(range(layout.ranks))]
    rows = [bench.run(subsets, size, DATA_TYPES["float"])[0] for size in _SIZES_BYTES]
    found = [(row.size_bytes, row.time_us * 1e3) for row in rows if row is not None]
    sizes, times = zip(*found, strict=True)
    return Curve(np.array(sizes, dtype=float), np.maximum.accumulate(np.array(times)))
