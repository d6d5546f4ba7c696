"""Lookups in embedding tables whose statistics the user has given: their kernels take the time of
`sim_server.kernels.lookup`, all others that of another timer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, cast

from sim_server.gpu import GpuProfile
from sim_server.kernels.fbgemm import bags_and_dim, launched_lookups
from sim_server.kernels.indexing import adding_up_ns
from sim_server.kernels.lookup import LookupModel, TableLookups
from sim_server.kernels.names import type_bytes
from sim_server.kernels.timer import Timer
from sim_server.kernels.timing import Tier, Timing
from sim_server.kernels.work import Launch
from sim_server.lookups import Lookups, read_lookups
from sim_server.lookups.pooling import read_pooling
from sim_server.lookups.read import number
from sim_server.records.payloads import Kernel


@dataclass(frozen=True, eq=False)
class KnownTable:
    """A table of the user's file. `pooling`: mean lookups of a bag."""

    rows: int
    dim: int
    pooling: float
    lookups: Lookups

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> KnownTable:
        """From a table of the file (docs/recommendation.md). Raises: UsageError."""
        rows, dim = int(number(spec, "rows", 1)), int(number(spec, "dim", 1))
        pooling = read_pooling(spec.get("pooling", 1)).mean
        lookups = read_lookups(spec.get("lookups"), rows, str(spec.get("name", "a table")))
        return cls(rows, dim, pooling, lookups)


class LookupTimer:
    """Times as another timer does, but for lookups in the known tables.

    A launch tells the width of a row, and `nn.Embedding` the rows of its table, too. Where several
    tables agree with that, their mean counts, and the tier is assumed.
    """

    def __init__(self, timer: Timer, gpu: GpuProfile, tables: Sequence[KnownTable]) -> None:
        self._timer = timer
        self._gpu = gpu
        self._model = LookupModel(gpu)
        self._tables = tables

    def time(self, signature: Mapping[str, Any]) -> Timing:
        """The timing of one launch."""
        timing = self._timer.time(signature)
        is_lookup = timing.kernel_class == "embedding" and timing.tier is not Tier.MEASURED
        if not is_lookup or signature.get("host_bytes"):
            return timing
        launch = Launch.from_signature(cast(Kernel, signature))
        found = self._works(launch)
        if not found:
            return timing
        works, sound = found
        # One kernel has them all where a launch is of several tables; else it has one of these.
        times = self._model.forward(works, self._model.in_flight(works[0].samples, len(works)))
        total_ns = sum(one.duration_ns for one in times)
        if not sound.together:
            total_ns /= len(works)
        if "EmbeddingBag_updateOutputKernel" in launch.name.family:
            memory_bytes = sum(one.memory_bytes for one in times) / len(times)
            elements, results = (n * works[0].dim for n in (works[0].lookups, works[0].samples))
            total_ns = max(total_ns, adding_up_ns(elements, results, memory_bytes, self._gpu))
        known = self._model.timing(times, timing.name)
        tier = Tier.MODELLED if sound.certain and known.tier is Tier.MODELLED else Tier.ASSUMED
        return dataclasses.replace(
            known,
            duration_ns=ceil(self._model.floor_ns + total_ns),
            tier=tier,
            sm_demand=timing.sm_demand,
        )

    def _works(self, launch: Launch) -> tuple[list[TableLookups], _Match] | None:
        family = launch.name.family
        if "EmbeddingBag_updateOutputKernel" in family:
            indices, bags, dim = (launch.integer(place) for place in range(3))
            if indices and bags and dim:
                size = type_bytes(launch.name.template[0]) or 4
                tables = [table for table in self._tables if table.dim == dim]
                works = [_work(table, bags, indices, size) for table in tables]
                return (works, _Match(len(works) == 1, together=False)) if works else None
        if "vectorized_gather_kernel" in family:
            return self._gathered(launch)
        if "codegen_forward" in family:
            return self._fused(launch)
        return None

    def _fused(self, launch: Launch) -> tuple[list[TableLookups], _Match] | None:
        """FBGEMM's kernel of all tables with rows as wide as it is compiled for, which share its
        bags evenly. How much they look up the launch tells, if its tensors are read.
        """
        told, known = launched_lookups(launch), bags_and_dim(launch)
        if told and not told.has_bags:
            tables = [table for table in self._tables if table.dim == told.dim]
        elif known:
            tables = [table for table in self._tables if known[1] / 2 < table.dim <= known[1]]
        else:
            return None
        if not tables:
            return None
        size = type_bytes(launch.name.template[0]) or 4
        bags = told.bags if told else known[0] if known else 0
        each = max(1, bags // len(tables))
        pooled = sum(table.pooling for table in tables)
        scale = told.lookups / pooled if told else each
        works = []
        for table in tables:
            lookups = table.pooling * scale
            samples = lookups if told and not told.has_bags else each
            works.append(_work(table, samples, lookups, size))
        return works, _Match(certain=False, together=True)

    def _gathered(self, launch: Launch) -> tuple[list[TableLookups], _Match] | None:
        count, row_bytes, rows = (launch.integer(place) for place in range(3))
        tables = [table for table in self._tables if table.rows == rows]
        fitting = [table for table in tables if row_bytes and row_bytes % table.dim == 0]
        if not count or not row_bytes or not fitting:
            return None
        works = [_work(table, count, count, row_bytes // table.dim) for table in fitting]
        return works, _Match(len(works) == 1, together=False)


@dataclass(frozen=True)
class _Match:
    """`certain`: the launch is of this table. `together`: it is of all of them."""

    certain: bool
    together: bool


def _work(table: KnownTable, bags: float, lookups: float, size: int) -> TableLookups:
    return TableLookups(table.lookups, bags, lookups, table.dim, size)
