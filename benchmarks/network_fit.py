"""Fit the costs of collectives to published nccl-tests; write sim_server/collectives/costs.

    python benchmarks/network_fit.py SINGLE_NODE.csv SEVERAL_NODES.csv [--only NAME]

What is fitted, and what is left for the report of benchmarks/network_accuracy.py, says
benchmarks/network_systems.py. The start of a fit are the costs that are there. A constant that no
measurement depends on keeps its value and is marked as assumed.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from network_systems import SEVERAL_NODES, SINGLE_NODE, Case, Role, cluster_of, read_cases

from phantora_py.calibrate.least_squares import Vector, fit
from sim_server.cluster import load_cluster
from sim_server.collectives import tuning
from sim_server.collectives.channels import CHANNEL_RATES, ChannelRates
from sim_server.collectives.environment import NcclEnvironment
from sim_server.collectives.group import Group
from sim_server.collectives.selection import Selection
from sim_server.collectives.tuning import Algorithm, Part, Parts, Protocol, Tuning, Way
from sim_server.network import Gpu, Topology
from sim_server.records.operations import Operation

COSTS = Path(tuning.__file__).parent / "costs"

# Which costs are fitted to which systems, GPUs first: the networks build on them.
TARGETS = [
    ("gpus", "ampere", ["A100"]),
    ("gpus", "hopper", ["H100"]),
    ("gpus", "blackwell", ["B300"]),
    ("gpus", "pcie", ["RTX PRO 6000, PCIe"]),
    ("networks", "infiniband", ["DGX A100, HDR", "HGX H100, NDR"]),
    ("networks", "efa", ["p5 (H100), EFA"]),
    ("networks", "slingshot", ["Polaris, plugin, tuned"]),
    ("networks", "sockets", ["Polaris, TCP, NCCL 2.21"]),
]

# What the few measurements of the other networks leave open is as on this one.
_FIRST_NETWORK = "infiniband"

SOURCES = {
    "gpus": "ai-dynamo/aiconfigurator (commit 095f58a, Apache-2.0)",
    "infiniband": "argonne-lcf/alcf-nccl-tests (DGX A100) and NVIDIA/nccl-tests issues (H100)",
    "efa": "aws-samples/awsome-distributed-training (2 p5.48xlarge)",
    "slingshot": "argonne-lcf/alcf-nccl-tests (Polaris, plugin aws-ofi)",
    "sockets": "argonne-lcf/alcf-nccl-tests (Polaris, no plugin)",
}

# Trees do inside a node what rings and NVLS do there.
_INSIDE_AS = {Algorithm.TREE: Algorithm.RING, Algorithm.NVLS_TREE: Algorithm.NVLS}
_SHARED = ("base_ns", "step_ns", "efficiency")
# Between nodes a pipeline of full buffers loads the wire alike, whatever its order of ranks.
_WIRED_AS = {
    (Algorithm.TREE, Protocol.SIMPLE): (Algorithm.RING, Protocol.SIMPLE),
    (Algorithm.NVLS_TREE, Protocol.SIMPLE): (Algorithm.RING, Protocol.SIMPLE),
}

# How far the first rounds look beyond the fastest way, as a factor's logarithm; then not at all.
_SOFTNESS = (0.1, 0.0)
# How far off, as a factor's logarithm, one measurement may be to spare a constant a change by a
# factor of e. Networks have few measurements, of few layouts.
_PULL = {"gpus": 0.02, "networks": 0.1}
_DETERMINED = 1e-6

# Links carry no more than they can, and a copy of the own part costs no more than sending it.
_HIGHEST = {"efficiency": 1.0, "own_weight": 1.0}


class Tried:
    """Costs that the fit is at: the same for all ranks."""

    def __init__(self, gpus: str) -> None:
        self.costs: Tuning = {}
        self._rates = CHANNEL_RATES[gpus]

    def tuning(self, _: Group) -> Tuning:
        """The costs."""
        return self.costs

    def rates(self, _: Group) -> ChannelRates:
        """What a channel carries."""
        return self._rates


class Model:
    """The estimated times of cases on one cluster, under costs that may be changed."""

    def __init__(self, cluster_name: str, cases: Mapping[Case, float]) -> None:
        cluster = load_cluster(cluster_name)
        self.cases = dict(cases)
        self._places: dict[int, tuple[Selection, Group]] = {}
        self.gpus, self.network = cluster.collectives, cluster.nic.transport
        self._tried = Tried(self.gpus)
        for case in cases:
            if case.gpus not in self._places:
                topology = Topology(cluster, case.nodes)
                node_gpus = case.gpus // case.nodes
                group = Group(
                    range(case.gpus), [Gpu(*divmod(rank, node_gpus)) for rank in range(case.gpus)]
                )
                selection = Selection(topology, self._tried, NcclEnvironment.read({}))
                self._places[case.gpus] = selection, group

        self._log_measured_ns = np.log(np.array(list(cases.values())) * 1e3)
        groups: dict[tuple[int, Operation], list[int]] = defaultdict(list)
        ordered = list(cases)
        for place, case in enumerate(ordered):
            groups[case.gpus, dataclasses.replace(case.operation, count=1)].append(place)
        self._alike = [
            (
                [ordered[place] for place in places],
                np.array([float(ordered[place].operation.buffer_bytes) for place in places]),
                places,
            )
            for places in groups.values()
        ]
        """Cases that differ in size alone, their sizes, and where they stand."""

    def residuals(self, inside: Parts, between: Parts, softness: float) -> list[float]:
        """Logarithms of estimated over measured times."""
        self._tried.costs = tuning.combine(inside, between)
        found = np.zeros(len(self.cases))
        for cases, buffer_bytes, places in self._alike:
            selection, group = self._places[cases[0].gpus]
            times_ns = [
                one.base_ns
                + one.ns_per_byte * buffer_bytes
                + one.fill_ns_per_byte * np.minimum(buffer_bytes, one.fill_bytes)
                for one in selection.lines(cases[0].operation, group).values()
            ]
            found[places] = _soft_minimum(np.log(times_ns), softness)
        return list(found - self._log_measured_ns)


def _soft_minimum(logs: Vector, softness: float) -> Vector:
    """The least logarithm in each column, or what smoothly approaches it."""
    least: Vector = np.min(logs, axis=0)
    if softness == 0:
        return least
    beyond: Vector = np.log(np.sum(np.exp((least - logs) / softness), axis=0))
    return least - softness * beyond


class Constant(NamedTuple):
    """One number that is fitted."""

    way: Way
    field: str
    start: float


def constants_of(parts: Parts, folder: str) -> list[Constant]:
    """What of these costs is free: numbers that are not 0, of ways that do not follow others."""
    return [
        Constant(way, field.name, value)
        for way, part in parts.items()
        if folder == "networks" or way[0] not in _INSIDE_AS
        for field in dataclasses.fields(Part)
        if (value := getattr(part, field.name)) > 0
        and not (folder == "networks" and way in _WIRED_AS and field.name == "efficiency")
    ]


def with_constants(parts: Parts, constants: Sequence[Constant], values: Vector) -> Parts:
    """These costs with other numbers, rounded as they will be written."""
    changed = {way: dataclasses.asdict(part) for way, part in parts.items()}
    for constant, value in zip(constants, values, strict=True):
        changed[constant.way][constant.field] = float(value)
    for (algorithm, protocol), part in changed.items():
        source = changed.get((_INSIDE_AS.get(algorithm, algorithm), protocol), part)
        if (
            source is not part
            and constants
            and (algorithm, protocol) not in {one.way for one in constants}
        ):
            part.update({field: source[field] for field in _SHARED})
    if any(one.way in _WIRED_AS for one in constants):
        for way, source_way in _WIRED_AS.items():
            changed[way]["efficiency"] = changed[source_way]["efficiency"]
    return {way: Part(**part) for way, part in changed.items()}


def fit_costs(
    folder: str, name: str, models: Sequence[Model], start_parts: Parts | None = None
) -> tuple[Parts, set[tuple[Way, str]]]:
    """Fitted costs, and what of them no measurement depends on; by default from what is there."""
    start_name = _FIRST_NETWORK if folder == "networks" else name
    parts = start_parts or tuning.read_parts(COSTS / folder / f"{start_name}.toml")
    constants = constants_of(parts, folder)
    start = np.array([one.start for one in constants])
    highest = np.array([_HIGHEST.get(one.field, 1e12) for one in constants])
    lowest = np.array([0.01 if one.field == "own_weight" else 1e-4 for one in constants])
    others = {
        model: tuning.read_parts(
            COSTS / f"networks/{model.network}.toml"
            if folder == "gpus"
            else COSTS / f"gpus/{model.gpus}.toml"
        )
        for model in models
    }
    values = start
    for softness in _SOFTNESS:

        def residuals(x: Vector, softness: float = softness) -> Vector:
            changed = with_constants(parts, constants, x)
            found: list[float] = []
            for model in models:
                pair = (changed, others[model]) if folder == "gpus" else (others[model], changed)
                found += model.residuals(*pair, softness)
            return np.array(found + list(_PULL[folder] * np.log(x / start)))

        result = fit(residuals, values, lowest, highest)
        values = result.constants
    seen = np.abs(result.jacobian[: -len(constants)]).max(axis=0)
    undetermined = {
        (one.way, one.field)
        for one, effect in zip(constants, seen, strict=True)
        if effect < _DETERMINED
    }
    values = extrapolated(constants, values, undetermined)
    return with_constants(parts, constants, values), undetermined


def extrapolated(
    constants: Sequence[Constant], values: Vector, undetermined: set[tuple[Way, str]]
) -> Vector:
    """Constants that no measurement depends on change as those of their kind did in the mean."""
    changes = np.log(values / np.array([one.start for one in constants]))
    found = values.copy()
    for index, one in enumerate(constants):
        if (one.way, one.field) in undetermined:
            alike = [
                change
                for other, change in zip(constants, changes, strict=True)
                if other.field == one.field and (other.way, other.field) not in undetermined
            ]
            if alike:
                found[index] = one.start * np.exp(np.mean(alike))
    return found


def text_of(parts: Parts, undetermined: set[tuple[Way, str]], header: str) -> str:
    """The file of these costs."""
    blocks = [header]
    for (algorithm, protocol), part in parts.items():
        lines = [f"[{algorithm.value}.{protocol.value}]"]
        for field in dataclasses.fields(Part):
            value = getattr(part, field.name)
            if value:
                mark = " # assumed" if ((algorithm, protocol), field.name) in undetermined else ""
                lines.append(f"{field.name} = {_number(field.name, value)}{mark}")
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _number(name: str, value: float) -> str:
    if name in ("efficiency", "own_weight"):
        return f"{value:.4g}"
    return f"{round(float(f'{value:.4g}')):_}"


def main() -> int:
    """Fit everything, or one file."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, nargs="+", help="CSV files of nccl-tests results")
    parser.add_argument("--only", metavar="NAME", help="one file of costs")
    arguments = parser.parse_args()
    cases, _ = read_cases(arguments.results, SINGLE_NODE + SEVERAL_NODES)
    for folder, name, systems in TARGETS:
        if arguments.only not in (None, name):
            continue
        models = []
        for system in (one for one in SINGLE_NODE + SEVERAL_NODES if one.name in systems):
            own = {
                case: time_us
                for case, time_us in cases.items()
                if case.system == system and system.role(case.gpus) is Role.FITTED
            }
            models.append(Model(cluster_of(system), own))
        parts, undetermined = fit_costs(folder, name, models)
        count = sum(len(model.cases) for model in models)
        header = (
            f"# Written by benchmarks/network_fit.py: fitted to {count} published times of\n"
            f"# {SOURCES.get(name, SOURCES['gpus'])}.\n"
            "# Coefficients only; the other systems and layouts are in docs/accuracy.md.\n"
        )
        path = COSTS / folder / f"{name}.toml"
        path.write_text(text_of(parts, undetermined, header), encoding="utf-8")
        print(f"{path.name}: {count} times, {len(undetermined)} constants undetermined")
    return 0


if __name__ == "__main__":
    sys.exit(main())
