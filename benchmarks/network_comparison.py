"""A measured time beside the simulated one, and figures of many of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import simpy
from network_systems import Case, cluster_of

from sim_server.cluster import load_cluster
from sim_server.collectives import Communication


class Comparison(NamedTuple):
    """A measured time and the simulated one."""

    case: Case
    measured_us: float
    simulated_us: float

    @property
    def error(self) -> float:
        """Simulated over measured, less one."""
        return self.simulated_us / self.measured_us - 1

    @property
    def either_way(self) -> float:
        """The larger over the smaller, less one."""
        ratio = self.simulated_us / self.measured_us
        return max(ratio, 1 / ratio) - 1


def compare(cases: Mapping[Case, float]) -> list[Comparison]:
    """Every case on its idle simulated cluster."""
    communications: dict[tuple[str, int], tuple[simpy.Environment, Communication]] = {}
    found = []
    for case, measured_us in cases.items():
        key = (case.system.name, case.gpus)
        if key not in communications:
            env = simpy.Environment()
            cluster = load_cluster(cluster_of(case.system))
            node_gpus = case.gpus // case.nodes
            communications[key] = (
                env,
                Communication(
                    env,
                    cluster,
                    case.nodes,
                    node_gpus,
                    dict(case.system.environment),
                    nccl_version=case.system.version,
                ),
            )
        env, communication = communications[key]
        start_ns = env.now
        env.run(communication.start(case.operation))
        found.append(Comparison(case, measured_us, (env.now - start_ns) / 1e3))
    return found


def percentile(values: Iterable[float], part: float) -> float:
    """The least value that `part` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(part * len(ordered)) - 1, 0)]


def figures(errors: Sequence[float]) -> str:
    """Cells of a table: how many, median and 90th percentile without sign, median with it."""
    absolute = [abs(error) for error in errors]
    return (
        f"{len(errors)} | {statistics.median(absolute):.1%} | {percentile(absolute, 0.9):.1%} | "
        f"{statistics.median(errors):+.1%}"
    )
