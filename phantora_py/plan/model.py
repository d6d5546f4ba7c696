"""The time of an iteration's embeddings under a placement, and the memory that it takes.

Ranks meet in every collective: each phase takes as long as its slowest rank, and the phases follow
each other (nothing of the dense part hides them). All that a phase depends on adds up over tables,
so that a placement is scored from sums by rank.

Results of a column whose rows are split over a place are summed there by a reduce-scatter, after
which each of its ranks has its part of the samples. An all-to-all among the ranks that have the
same samples of all columns brings them to the samples' ranks. Where the place is one rank the
first has nothing to do, where it is all ranks the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

import numpy as np
from numpy.typing import NDArray

from phantora_py.plan.curves import Curves
from phantora_py.plan.host_memory import UVM_CACHING, HostRows, host_rows
from phantora_py.plan.options import Option, options_of
from phantora_py.plan.tables import Table
from sim_server.cluster import Layout
from sim_server.errors import UsageError
from sim_server.gpu import GpuProfile
from sim_server.kernels.lookup import STATES, LookupModel, LookupTime, TableLookups
from sim_server.kernels.timing import Tier
from sim_server.lookups import Sharded

Array = NDArray[np.float64]

# What of each rank adds up; then, once for each level of the curves, what of its results does.
FORWARD, BACKWARD, IN_SENT, IN_RECEIVED, REDUCED, MEMORY, LOOKUPS, RESULTS = range(8)
SCATTERED, SENT, RECEIVED = range(3)
PHASES = ("input", "forward", "output", "gradient", "backward", "dense")
_INDEX_BYTES = 8
_FLOAT_BYTES = 4
# Of a dense table's gradient and optimizer: passes over its weights (assumed).
_DENSE_PASSES = 6


@dataclass(frozen=True, eq=False)
class Shard:
    """What one shard does in an iteration, for reports."""

    rank: int
    lookups: float
    forward: LookupTime
    backward: LookupTime
    host: HostRows | None
    """Of a table in host memory; its time is in those."""


_Times = tuple[TableLookups, LookupTime, LookupTime, HostRows | None]


@dataclass(frozen=True)
class Machine:
    """What the tables are placed on. `limit_bytes`: of a rank's memory, for tables and buffers."""

    layout: Layout
    gpu: GpuProfile
    curves: Curves
    limit_bytes: float


class PlanModel:
    """Tables on the ranks of a machine. `batch`: samples of a rank."""

    def __init__(self, tables: Sequence[Table], batch: int, machine: Machine) -> None:
        """Raises: UsageError if a table fits nowhere."""
        self.tables = tables
        self.layout = machine.layout
        self.ranks = machine.layout.ranks
        self.batch = batch
        self.limit_bytes = machine.limit_bytes
        self.lookup_model = LookupModel(machine.gpu)
        self._gpu = machine.gpu
        self._curves = machine.curves
        self.options: list[list[Option]] = []
        self.ranked: list[Array] = []
        """Of each table by option: shape (options, ranks, what adds up)."""
        self.nothing = np.zeros((self.ranks, RESULTS + 3 * len(machine.curves.levels)))
        """The sums of no table."""
        self._times: dict[tuple[int, bool, int, int, str], _Times] = {}
        for number, table in enumerate(tables):
            self._add(number, table)

    @cached_property
    def samples(self) -> int:
        """Of all ranks."""
        return self.batch * self.ranks

    @cached_property
    def _in_flight(self) -> int:
        return self.lookup_model.in_flight(self.samples, ceil(len(self.tables) / self.ranks))

    def _add(self, number: int, table: Table) -> None:
        options = options_of(table, self.layout)
        features = [self._features(number, option) for option in options]
        fits = [bool(ranked[:, MEMORY].max() <= self.limit_bytes) for ranked in features]
        if not any(fits):
            least = min(ranked[:, MEMORY].max() for ranked in features)
            raise UsageError(
                f"table {table.name} fits nowhere: {table.rows} rows of {table.dim} take "
                f"{least / 2**30:.1f} GiB of a rank at least, and {self.limit_bytes / 2**30:.1f} "
                "GiB are free; more ranks, fewer samples, another sharding type or host memory "
                "(constraints.compute_kernels) may do"
            )
        kept = [place for place, fit in enumerate(fits) if fit]
        self.options.append([options[place] for place in kept])
        self.ranked.append(np.stack([features[place] for place in kept]))

    def shards(self, number: int, option: Option) -> list[Shard]:
        """The shards of a table so placed."""
        work, forward, backward, host = self._shard(number, option)
        return [Shard(rank, work.lookups, forward, backward, host) for rank in option.ranks]

    def _shard(self, number: int, option: Option) -> _Times:
        key = number, option.copied, len(option.ranks), option.split, option.compute_kernel
        if key not in self._times:
            work = self._work(self.tables[number], option)
            group = [work] * self._in_flight
            forward = self.lookup_model.forward(group, self._in_flight)[0]
            backward = self.lookup_model.backward([work], self._in_flight)[0]
            host = None
            if option.in_host_memory:
                host = self._on_host(self.tables[number], option, work)
                forward = replace(
                    forward,
                    duration_ns=forward.duration_ns + host.forward_ns,
                    tier=Tier.ASSUMED,
                )
                backward = replace(backward, duration_ns=backward.duration_ns + host.backward_ns)
            self._times[key] = work, forward, backward, host
        return self._times[key]

    def _on_host(self, table: Table, option: Option, work: TableLookups) -> HostRows:
        cached = option.compute_kernel == UVM_CACHING
        factor = table.cache_load_factor if cached else None
        return host_rows(work, ceil(table.rows / option.split), factor, self._gpu)

    def _work(self, table: Table, option: Option) -> TableLookups:
        """What one of the equal shards looks up."""
        samples, parts = self.samples * len(table.features), option.split
        lookups = self.samples * table.lookups_per_sample
        if option.copied:
            samples, lookups = self.batch * len(table.features), lookups / self.ranks
        return TableLookups(
            table=Sharded(table.lookups, parts) if parts > 1 else table.lookups,
            samples=samples,
            lookups=lookups / parts,
            dim=table.dim if option.copied else table.dim // len(option.columns),
            element_bytes=table.element_bytes,
            optimizer=table.optimizer,
        )

    def _features(self, number: int, option: Option) -> Array:
        """What a table so placed adds."""
        table = self.tables[number]
        work, forward, backward, host = self._shard(number, option)
        ranked, mine = np.zeros_like(self.nothing), list(option.ranks)
        ranked[mine, FORWARD] = forward.duration_ns
        ranked[mine, BACKWARD] = backward.duration_ns
        ranked[mine, LOOKUPS] = work.lookups
        buffers = 2 * work.lookups * _INDEX_BYTES + 2 * work.samples * work.dim * _FLOAT_BYTES
        row_bytes = work.dim * table.element_bytes + STATES[table.optimizer](work.dim)
        weights = host.gpu_bytes if host else ceil(table.rows / option.split) * row_bytes
        ranked[mine, MEMORY] = weights + buffers
        if option.copied:
            dense = table.rows * table.dim * _FLOAT_BYTES
            ranked[:, MEMORY] += dense
            ranked[:, BACKWARD] += _DENSE_PASSES * dense / self._gpu.bandwidth_bytes_per_ns
            ranked[:, REDUCED] = dense
        else:
            self._ask(ranked, work, mine)
            self._answer(ranked, work, option)
        return ranked

    def _ask(self, ranked: Array, work: TableLookups, mine: list[int]) -> None:
        """Indices and lengths go from every rank to those of the shards."""
        each = (work.lookups + work.samples) * _INDEX_BYTES / self.ranks
        ranked[:, IN_SENT] = each * len(mine)
        ranked[mine, IN_SENT] -= each
        ranked[mine, IN_RECEIVED] = each * (self.ranks - 1)

    def _answer(self, ranked: Array, work: TableLookups, option: Option) -> None:
        """Results go to the samples' ranks, of each column from the rank that has their sums."""
        splits = [level.split for level in self._curves.levels]
        start, mine = RESULTS + 3 * splits.index(option.split), list(option.ranks)
        if option.split > 1:
            ranked[mine, start + SCATTERED] = work.samples * work.dim * _FLOAT_BYTES
        each = work.samples / self.ranks * work.dim * _FLOAT_BYTES
        ranked[mine, start + SENT] = each * (self.ranks // option.split - 1)
        ranked[:, start + RECEIVED] = each * len(option.columns)
        ranked[mine, start + RECEIVED] -= each

    def phases_ns(self, ranked: Array) -> Array:
        """Of each phase, from sums over tables; leading dimensions are kept."""
        return self._phases_ns(ranked.max(axis=-2))

    def _phases_ns(self, slowest: Array) -> Array:
        """From the largest sums of any rank."""
        floor, curves = self.lookup_model.floor_ns, self._curves
        largest_in = np.maximum(slowest[..., IN_SENT], slowest[..., IN_RECEIVED])
        out_ns, back_ns = np.zeros_like(largest_in), np.zeros_like(largest_in)
        for place, level in enumerate(curves.levels):
            results = slowest[..., RESULTS + 3 * place :]
            scattered = results[..., SCATTERED]
            largest = np.maximum(results[..., SENT], results[..., RECEIVED])
            exchanged_ns = level.all_to_all.time_ns(largest * _whole(self.ranks // level.split))
            out_ns += exchanged_ns + level.reduce_scatter.time_ns(scattered)
            back_ns += exchanged_ns + level.all_gather.time_ns(scattered)
        return np.stack(
            [
                curves.all_to_all.time_ns(largest_in * _whole(self.ranks)),
                floor + slowest[..., FORWARD],
                out_ns,
                back_ns,
                floor + slowest[..., BACKWARD],
                curves.all_reduce.time_ns(slowest[..., REDUCED]),
            ],
            axis=-1,
        )

    def score_ns(self, ranked: Array) -> Array:
        """The time of an iteration's embeddings; infinite where a rank's memory does not do."""
        slowest = ranked.max(axis=-2)
        fits = slowest[..., MEMORY] <= self.limit_bytes
        return np.asarray(np.where(fits, self._phases_ns(slowest).sum(axis=-1), np.inf))

    def sums(self, choice: Sequence[int]) -> Array:
        """Sums of a placement: for each table the number of its option."""
        return sum((self.ranked[t][o] for t, o in enumerate(choice)), self.nothing)

    def cost_ns(self, choice: Sequence[int]) -> float:
        """The score of a placement."""
        return float(self.score_ns(self.sums(choice)))


def _whole(ranks: int) -> float:
    """The size of an all-to-all, which has a part for the rank itself, over what it sends."""
    return ranks / max(1, ranks - 1)
