"""The measurements: operations on an idle simulated cluster, one size after the other."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import simpy

from phantora_py.bench.operations import BenchOperation
from sim_server.cluster import Cluster, Layout
from sim_server.collectives import Communication


@dataclass(frozen=True)
class Row:
    """One line of the table. Units: bandwidths in 10^9 bytes per second."""

    ranks: int
    size_bytes: int
    count: int
    time_us: float
    algbw_gb_per_s: float
    busbw_gb_per_s: float
    algorithm: str
    protocol: str
    channels: int


class Bench:
    """One operation on communicators of one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        layout: Layout,
        environment: Mapping[str, str],
        operation: BenchOperation,
        reduction: int = 0,
    ) -> None:
        """`environment` holds the NCCL_* variables. Raises: UsageError."""
        self._env = simpy.Environment()
        self._communication = Communication(
            self._env, cluster, layout.nodes, layout.gpus_per_node, environment
        )
        self._operation = operation
        self._reduction = reduction

    def run(
        self, subsets: Sequence[Sequence[int]], size_bytes: int, dtype: int
    ) -> list[Row | None]:
        """One row for each subset; all of them start together and share the links.

        None for a subset of which a rank would get no element.
        """
        processes: list[simpy.Process | None] = []
        for ranks in subsets:
            count = self._operation.count(size_bytes, dtype, len(ranks))
            measuring = self._measure(ranks, count, dtype)
            processes.append(self._env.process(measuring) if count > 0 else None)
        self._env.run()
        return [None if process is None else process.value for process in processes]

    def _measure(
        self, ranks: Sequence[int], count: int, dtype: int
    ) -> Generator[simpy.Event, Any, Row]:
        operation = self._operation
        start_ns = int(self._env.now)
        launches = operation.launches(ranks, count, dtype, self._reduction)
        plan = self._communication.plan(*launches)
        yield simpy.AllOf(self._env, self._communication.start_group(launches))
        duration_ns = int(self._env.now) - start_ns
        size_bytes = operation.size_bytes(count, dtype, len(ranks))
        rate = size_bytes / duration_ns  # bytes per ns are 10^9 bytes per s
        return Row(
            ranks=len(ranks),
            size_bytes=size_bytes,
            count=count,
            time_us=duration_ns / 1e3,
            algbw_gb_per_s=rate,
            busbw_gb_per_s=rate * operation.bus_factor(len(ranks)),
            algorithm=plan.algorithm.value,
            protocol=plan.protocol.value,
            channels=plan.channels,
        )
