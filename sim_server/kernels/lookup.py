"""Lookups in embedding tables, forward and backward with the optimizer in it, as FBGEMM's kernels
do them: time from what the caches hold of each table's lookups.

A warp has a sample's lookups in a table, tables follow each other in the grid. All weights come
through the L2 cache in sectors; what it does not hold comes from memory. The backward pass sorts
the lookups by row, so that every different row is read and written once, and reads a gradient for
each lookup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, log2

from sim_server.gpu import GpuProfile
from sim_server.kernels.interval import with_interval
from sim_server.kernels.timing import Tier, Timing
from sim_server.kernels.work import L2_SHARE
from sim_server.lookups import Lookups, Share, hit_rates
from sim_server.lookups.distributions import uniform

SECTOR_BYTES = 32
_INDEX_BYTES = 8
_FLOAT_BYTES = 4
# Of the streaming rate that rows from anywhere reach: embeddings (linkedin/Liger-Kernel@ead96b61).
_ROWS = 0.93
# Of what a warp of four elements a lane takes, with narrower rows. Source: the factors of the
# lookup model in owensgroup/ml_perf_model@5b2522a, fitted there to V100 and A100.
_NARROW = ((64, 1.0), (32, 1.1), (0, 1.55))
# Of a multiprocessor's 64 warps, those that registers leave. Source: as above.
_WARPS = 45
# Assumed: the rate of CUB's sort, as of others (`sim_server.kernels.sorting`), and the bits that a
# pass sorts.
_SORT = 0.6
_PASS_BITS = 8
# Lookups of one row that a block sums; longer ones are parted, and their sums joined by atomics.
# Source: `max_segment_length_per_cta` of FBGEMM's backward kernels.
_SEGMENT = 1024
# Assumed: an atomic addition of a sector of a row's sum to the same address, one after the other.
_ATOMIC_NS = 4.0

# Bytes of optimizer state of a row with so many elements.
STATES: dict[str, Callable[[int], int]] = {
    "sgd": lambda dim: 0,
    "rowwise_adagrad": lambda dim: _FLOAT_BYTES,
    "adagrad": lambda dim: dim * _FLOAT_BYTES,
    "adam": lambda dim: 2 * dim * _FLOAT_BYTES,
    "partial_rowwise_adam": lambda dim: (dim + 1) * _FLOAT_BYTES,
}
"""Fused optimizers by the names of FBGEMM's `OptimType`."""


@dataclass(frozen=True)
class TableLookups:
    """What a kernel looks up in one table.

    `samples`: bags. `lookups`: of all of them. `element_bytes`: of a weight. `dim`: elements of a
    row, of which the kernel reads all.
    """

    table: Lookups
    samples: float
    lookups: float
    dim: int
    element_bytes: int = 4
    optimizer: str = "rowwise_adagrad"

    @property
    def row_bytes(self) -> int:
        """What a row takes in a cache."""
        return _sectors(self.dim * self.element_bytes)

    @property
    def output_bytes(self) -> int:
        """What a sample's result, or its gradient, takes."""
        return _sectors(self.dim * _FLOAT_BYTES)

    @property
    def state_bytes(self) -> int:
        """What the optimizer keeps of a row, as it is moved."""
        state = STATES[self.optimizer](self.dim)
        return _sectors(state) if state else 0


@dataclass(frozen=True)
class LookupTime:
    """The time of one table's lookups within a kernel, without the kernel's own floor.

    `hit_rate`: of the weights' rows in the forward pass, of the gradients' in the backward pass.
    """

    duration_ns: float
    hit_rate: float
    memory_bytes: float
    cache_bytes: float
    tier: Tier


class LookupModel:
    """Times of lookups on one GPU model."""

    def __init__(self, gpu: GpuProfile) -> None:
        self._gpu = gpu

    @property
    def floor_ns(self) -> float:
        """What any kernel takes beside its tables."""
        return self._gpu.execution["kernel_floor_ns"]

    @cached_property
    def capacity_bytes(self) -> float:
        """Of the L2 cache, what rows have."""
        return L2_SHARE * self._gpu.l2_bytes

    def in_flight(self, samples: float, tables: int) -> int:
        """Tables that a kernel works on at a time, with so many samples of each."""
        warps = self._gpu.sm_count * _WARPS
        return max(1, min(tables, ceil(warps / max(1.0, samples))))

    def forward(self, tables: Sequence[TableLookups], in_flight: int = 1) -> list[LookupTime]:
        """Of each table; so many at a time share the L2 cache, neighbours in this order."""
        return [
            self._forward(one, rate)
            for group in _groups(tables, in_flight)
            for one, rate in zip(group, self._forward_rates(group), strict=True)
        ]

    def _forward_rates(self, group: Sequence[TableLookups]) -> list[float]:
        shares = [
            Share(one.table, one.lookups, one.row_bytes, _streamed_bytes(one))
            for one in group
            if one.lookups
        ]
        rates = iter(hit_rates(shares, self.capacity_bytes))
        return [next(rates) if one.lookups else 0.0 for one in group]

    def _forward(self, one: TableLookups, hit_rate: float) -> LookupTime:
        streamed = one.lookups * _INDEX_BYTES + one.samples * (_INDEX_BYTES + one.output_bytes)
        rows = one.lookups * one.row_bytes
        memory, cache = streamed + rows * (1 - hit_rate), streamed + rows
        duration_ns = self._moving_ns(memory, cache) * narrow_factor(one.dim)
        tier = Tier.MODELLED if one.table.sound else Tier.ASSUMED
        return LookupTime(duration_ns, hit_rate, memory, cache, tier)

    def backward(self, tables: Sequence[TableLookups], in_flight: int = 1) -> list[LookupTime]:
        """Of each table: sort, gradients, weights and the optimizer's state."""
        return [self._backward(one, in_flight) for one in tables]

    def _backward(self, one: TableLookups, in_flight: int) -> LookupTime:
        if not one.lookups:
            return LookupTime(0.0, 0.0, 0.0, 0.0, Tier.MODELLED)
        update = self.update(one, in_flight)
        sorted_ns = self._sort_ns(one) + _joining_ns(one)
        return replace(update, duration_ns=update.duration_ns + sorted_ns)

    def update(self, one: TableLookups, in_flight: int = 1) -> LookupTime:
        """Of sorted lookups: gradients, weights and the optimizer's state."""
        if not one.lookups:
            return LookupTime(0.0, 0.0, 0.0, 0.0, Tier.MODELLED)
        distinct = one.table.distinct(one.lookups)
        updated = distinct * 2 * (one.row_bytes + one.state_bytes)
        # In the order of rows a sample's gradient is asked for at random.
        gradients = Share(uniform(max(1, ceil(one.samples))), one.lookups, one.output_bytes)
        (hit_rate,) = hit_rates([gradients], self.capacity_bytes / in_flight)
        read = one.lookups * one.output_bytes
        listed = one.lookups * _INDEX_BYTES
        memory, cache = updated + listed + read * (1 - hit_rate), updated + listed + read
        duration_ns = self._moving_ns(memory, cache) * narrow_factor(one.dim)
        return LookupTime(duration_ns, hit_rate, memory, cache, Tier.ASSUMED)

    def _sort_ns(self, one: TableLookups) -> float:
        """A radix sort of row and place, and the passes that find where rows begin."""
        passes = ceil(max(1.0, log2(one.table.rows)) / _PASS_BITS)
        moved = one.lookups * 2 * _INDEX_BYTES * (2 * passes + 1) + one.lookups * 3 * _INDEX_BYTES
        return moved / (self._gpu.bandwidth_bytes_per_ns * _SORT)

    def _moving_ns(self, memory_bytes: float, cache_bytes: float) -> float:
        """The longer of the memory's and the L2 cache's time."""
        gpu = self._gpu
        cached = gpu.sm_count * gpu.kernels.l2_bytes_per_clock * gpu.cycles_per_ns
        return max(memory_bytes / (gpu.bandwidth_bytes_per_ns * _ROWS), cache_bytes / cached)

    def timing(self, times: Sequence[LookupTime], name: str) -> Timing:
        """One kernel of these tables, with its tier and interval."""
        sound = all(one.tier is Tier.MODELLED for one in times)
        timing = Timing(
            duration_ns=ceil(self.floor_ns + sum(one.duration_ns for one in times)),
            tier=Tier.MODELLED if sound else Tier.ASSUMED,
            kernel_class="embedding",
            name=name,
            sm_demand=1.0,
            region="lookup",
        )
        return with_interval(timing, self._gpu)


def narrow_factor(dim: int) -> float:
    """How much longer rows of so few elements take, whose warps have lanes without work."""
    return next(factor for above, factor in _NARROW if dim > above)


def _streamed_bytes(one: TableLookups) -> float:
    """Index, and the lookup's part of offset and output."""
    return _INDEX_BYTES + one.samples * (_INDEX_BYTES + one.output_bytes) / one.lookups


def _joining_ns(one: TableLookups) -> float:
    """The sums of the most frequent row's parts: atomics, one after the other."""
    parts = one.table.most_frequent(one.lookups) / _SEGMENT
    return max(0.0, parts - 1) * _ATOMIC_NS


def _sectors(size_bytes: float) -> int:
    return ceil(size_bytes / SECTOR_BYTES) * SECTOR_BYTES


def _groups(tables: Sequence[TableLookups], size: int) -> list[Sequence[TableLookups]]:
    return [tables[start : start + size] for start in range(0, len(tables), size)]
