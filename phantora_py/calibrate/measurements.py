"""Logs of nccl-tests as operations on a cluster, with their measured times."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path

import numpy as np
import simpy

from phantora_py.bench.log import read_log
from phantora_py.bench.operations import DATA_TYPES, BenchOperation, find_operation
from phantora_py.calibrate.least_squares import Vector
from sim_server.cluster import Calibration, Cluster, place
from sim_server.collectives import Communication
from sim_server.collectives.environment import nccl_variables
from sim_server.errors import UsageError
from sim_server.records import NcclOpKind
from sim_server.records.operations import Operation


@dataclass(frozen=True)
class Measurement:
    """One line of a log."""

    operation: Operation
    time_ns: float


class Measurements:
    """All lines of one log, and the cluster's model of them."""

    def __init__(self, path: Path, cluster: Cluster, operation_name: str | None) -> None:
        """Raises: UsageError when the log does not say what was measured, or cannot be of this
        cluster."""
        found = read_log(path)
        name = found.operation or operation_name
        if name is None:
            raise UsageError(f"{path}: does not say which operation it is of; give --operation")
        self.operation = find_operation(name)
        if self.operation.kind is NcclOpKind.SEND:
            raise UsageError(f"{path}: is a log of sendrecv, which is not used; log a collective")
        if found.ranks is None:
            raise UsageError(
                f"{path}: has no header with the ranks ('#  Rank  0 ... on HOST device 0'), which "
                "says how many there are on which nodes; keep it in the log"
            )
        self.path = path
        self.layout = place(cluster, found.ranks, found.nodes)
        self.communication = Communication(
            simpy.Environment(),
            cluster,
            self.layout.nodes,
            self.layout.gpus_per_node,
            nccl_variables(os.environ),
        )
        self.rows = [
            Measurement(operation, row.time_us * 1e3)
            for row in found.rows
            if row.time_us > 0
            and (operation := _operation(self.operation, row.size_bytes, row.type, found.ranks))
        ]

    def residuals(self, calibration: Calibration) -> list[float]:
        """Logarithms of virtual over measured times."""
        self.communication.calibrate(calibration)
        return [
            log(self.communication.estimate_ns(row.operation) / row.time_ns) for row in self.rows
        ]


def _operation(
    operation: BenchOperation, size_bytes: int, type_name: str, ranks: int
) -> Operation | None:
    """What a line measured; None for the launch of an empty operation."""
    dtype = DATA_TYPES[type_name]
    count = operation.count(size_bytes, dtype, ranks)
    if count == 0 or ranks < 2:
        return None
    (launch,) = operation.launches(range(ranks), count, dtype, 0)
    return launch


def all_residuals(logs: Iterable[Measurements], calibration: Calibration) -> Vector:
    """Those of all logs."""
    return np.array([one for log_ in logs for one in log_.residuals(calibration)])


def count_rows(logs: Sequence[Measurements]) -> int:
    """Lines of all logs that are used."""
    return sum(len(one.rows) for one in logs)
