"""The time of an iteration's embeddings under a placement, and the memory that it takes.

Ranks meet in every collective: each phase takes as long as its slowest rank, and the phases follow
each other (nothing of the dense part hides them). All that a phase depends on adds up over tables,
so that a placement is scored from sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

import numpy as np
from numpy.typing import NDArray

from phantora_py.plan.curves import Curves
from phantora_py.plan.options import Option, options_of
from phantora_py.plan.tables import Table
from sim_server.errors import UsageError
from sim_server.gpu import GpuProfile
from sim_server.kernels.lookup import STATES, LookupModel, LookupTime, TableLookups
from sim_server.lookups import Sharded

Array = NDArray[np.float64]

# What of each rank adds up, and what of all ranks together.
FORWARD, BACKWARD, IN_SENT, IN_RECEIVED, OUT_SENT, OUT_RECEIVED, MEMORY, LOOKUPS = range(8)
SCATTERED, REDUCED = range(2)
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


@dataclass(frozen=True)
class Machine:
    """What the tables are placed on. `limit_bytes`: of a rank's memory, for tables and buffers."""

    ranks: int
    gpu: GpuProfile
    curves: Curves
    limit_bytes: float


class PlanModel:
    """Tables on the ranks of a machine. `batch`: samples of a rank."""

    def __init__(self, tables: Sequence[Table], batch: int, machine: Machine) -> None:
        """Raises: UsageError if a table fits nowhere."""
        self.tables = tables
        self.ranks = machine.ranks
        self.batch = batch
        self.limit_bytes = machine.limit_bytes
        self.lookup_model = LookupModel(machine.gpu)
        self._gpu = machine.gpu
        self._curves = machine.curves
        self.options: list[list[Option]] = []
        self.ranked: list[Array] = []
        """Of each table by option: shape (options, 8, ranks)."""
        self.shared: list[Array] = []
        """Of each table by option: shape (options, 2)."""
        self._times: dict[tuple[int, str, int], tuple[TableLookups, LookupTime, LookupTime]] = {}
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
        options = options_of(table, self.ranks)
        features = [self._features(number, option) for option in options]
        fits = [bool(ranked[MEMORY].max() <= self.limit_bytes) for ranked, _ in features]
        if not any(fits):
            least = min(ranked[MEMORY].max() for ranked, _ in features)
            raise UsageError(
                f"table {table.name} fits nowhere: {table.rows} rows of {table.dim} take "
                f"{least / 2**30:.1f} GiB of a rank at least, and {self.limit_bytes / 2**30:.1f} "
                "GiB are free; more ranks, fewer samples or another sharding type may do"
            )
        kept = [place for place, fit in enumerate(fits) if fit]
        self.options.append([options[place] for place in kept])
        self.ranked.append(np.stack([features[place][0] for place in kept]))
        self.shared.append(np.stack([features[place][1] for place in kept]))

    def shards(self, number: int, option: Option) -> list[Shard]:
        """The shards of a table so placed."""
        work, forward, backward = self._shard(number, option.kind, len(option.ranks))
        return [Shard(rank, work.lookups, forward, backward) for rank in option.ranks]

    def _shard(
        self, number: int, kind: str, parts: int
    ) -> tuple[TableLookups, LookupTime, LookupTime]:
        key = number, kind, parts
        if key not in self._times:
            work = self._work(self.tables[number], kind, parts)
            group = [work] * self._in_flight
            forward = self.lookup_model.forward(group, self._in_flight)[0]
            backward = self.lookup_model.backward([work], self._in_flight)[0]
            self._times[key] = work, forward, backward
        return self._times[key]

    def _work(self, table: Table, kind: str, parts: int) -> TableLookups:
        """What one of so many equal shards looks up."""
        bags = self.samples * len(table.features)
        whole = TableLookups(
            table=table.lookups,
            samples=bags,
            lookups=self.samples * table.lookups_per_sample,
            dim=table.dim,
            element_bytes=table.element_bytes,
            optimizer=table.optimizer,
        )
        if kind == "column_wise":
            return replace(whole, dim=table.dim // parts)
        if kind == "row_wise":
            part = Sharded(table.lookups, parts)
            return replace(whole, table=part, lookups=whole.lookups / parts)
        if kind == "data_parallel":
            return replace(whole, samples=bags / parts, lookups=whole.lookups / parts)
        return whole

    def _features(self, number: int, option: Option) -> tuple[Array, Array]:
        """What a table so placed adds."""
        table, count = self.tables[number], self.ranks
        work, forward, backward = self._shard(number, option.kind, len(option.ranks))
        ranked, shared = np.zeros((8, count)), np.zeros(2)
        mine = list(option.ranks)
        ranked[FORWARD, mine] = forward.duration_ns
        ranked[BACKWARD, mine] = backward.duration_ns
        ranked[LOOKUPS, mine] = work.lookups
        buffers = 2 * work.lookups * _INDEX_BYTES + 2 * work.samples * work.dim * _FLOAT_BYTES
        rows = ceil(table.rows / len(mine)) if option.kind == "row_wise" else table.rows
        row_bytes = work.dim * table.element_bytes + STATES[table.optimizer](work.dim)
        ranked[MEMORY, mine] = rows * row_bytes + buffers
        if option.kind == "data_parallel":
            dense = table.rows * table.dim * _FLOAT_BYTES
            ranked[MEMORY] += dense
            ranked[BACKWARD] += _DENSE_PASSES * dense / self._gpu.bandwidth_bytes_per_ns
            shared[REDUCED] = dense
            return ranked, shared
        self._exchange(ranked, work, mine)
        if option.kind == "row_wise":
            shared[SCATTERED] = work.samples * work.dim * _FLOAT_BYTES
        else:
            output = work.samples / count * work.dim * _FLOAT_BYTES
            ranked[OUT_SENT, mine] = output * (count - 1)
            ranked[OUT_RECEIVED] = output * len(mine)
            ranked[OUT_RECEIVED, mine] -= output
        return ranked, shared

    def _exchange(self, ranked: Array, work: TableLookups, mine: list[int]) -> None:
        """Indices and lengths go from every rank to those of the shards."""
        each = (work.lookups + work.samples) * _INDEX_BYTES / self.ranks
        ranked[IN_SENT] = each * len(mine)
        ranked[IN_SENT, mine] -= each
        ranked[IN_RECEIVED, mine] = each * (self.ranks - 1)

    def phases_ns(self, ranked: Array, shared: Array) -> Array:
        """Of each phase, from sums over tables; leading dimensions are kept."""
        slowest = ranked.max(axis=-1)
        floor = self.lookup_model.floor_ns
        largest_in = np.maximum(slowest[..., IN_SENT], slowest[..., IN_RECEIVED])
        largest_out = np.maximum(slowest[..., OUT_SENT], slowest[..., OUT_RECEIVED])
        curves, whole = self._curves, self.ranks / max(1, self.ranks - 1)
        out_ns = curves.all_to_all.time_ns(largest_out * whole)
        scattered = shared[..., SCATTERED]
        return np.stack(
            [
                curves.all_to_all.time_ns(largest_in * whole),
                floor + slowest[..., FORWARD],
                out_ns + curves.reduce_scatter.time_ns(scattered),
                out_ns + curves.all_gather.time_ns(scattered),
                floor + slowest[..., BACKWARD],
                curves.all_reduce.time_ns(shared[..., REDUCED]),
            ],
            axis=-1,
        )

    def score_ns(self, ranked: Array, shared: Array) -> Array:
        """The time of an iteration's embeddings; infinite where a rank's memory does not do."""
        total = self.phases_ns(ranked, shared).sum(axis=-1)
        fits = ranked[..., MEMORY, :].max(axis=-1) <= self.limit_bytes
        return np.asarray(np.where(fits, total, np.inf))

    def sums(self, choice: Sequence[int]) -> tuple[Array, Array]:
        """Sums of a placement: for each table the number of its option."""
        pairs = list(enumerate(choice))
        ranked = sum((self.ranked[t][o] for t, o in pairs), np.zeros((8, self.ranks)))
        shared = sum((self.shared[t][o] for t, o in pairs), np.zeros(2))
        return ranked, shared

    def cost_ns(self, choice: Sequence[int]) -> float:
        """The score of a placement."""
        return float(self.score_ns(*self.sums(choice)))
