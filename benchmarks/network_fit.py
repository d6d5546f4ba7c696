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
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from network_systems import SEVERAL_NODES, SINGLE_NODE, Case, Role, cluster_of, read_cases

from phantora_py.calibrate.least_squares import Fit, Vector, cost, fit
from sim_server.cluster import Cluster, load_cluster
from sim_server.collectives import tuning
from sim_server.collectives.channels import CHANNEL_RATES, ChannelRates
from sim_server.collectives.environment import NcclEnvironment
from sim_server.collectives.group import Group
from sim_server.collectives.library import Library
from sim_server.collectives.selection import Selection
from sim_server.collectives.tuner import Machine
from sim_server.collectives.tuning import Algorithm, Part, Parts, Protocol, Tuning, Way
from sim_server.network import Gpu, Topology
from sim_server.records import NcclOpKind
from sim_server.records.operations import Operation

COSTS = Path(tuning.__file__).parent / "costs"

# Which costs are fitted to which systems, GPUs first: the networks build on them.
TARGETS = [
    ("gpus", "ampere", ["A100"]),
    ("gpus", "hopper", ["H100"]),
    ("gpus", "blackwell", ["B300"]),
    ("gpus", "pcie", ["RTX PRO 6000, PCIe"]),
    ("networks", "infiniband-ndr", ["HGX H100, NDR", "B200, NDR", "DGX A100, HDR"]),
    ("networks", "infiniband-hdr", ["DGX A100, HDR"]),
    ("networks", "efa", ["p5 (H100), EFA", "p4de (A100), EFA"]),
    ("networks", "gib", ["A4 (B200), gIB"]),
    (
        "networks",
        "slingshot",
        ["Polaris, plugin, tuned, NCCL 2.18", "Polaris, plugin, tuned, NCCL 2.21"],
    ),
    ("networks", "sockets", ["Polaris, TCP, NCCL 2.21"]),
]

# Of another generation only what its own measurements do not have.
_ONLY = {("infiniband-ndr", "DGX A100, HDR"): NcclOpKind.ALL_TO_ALL}

# What the few measurements of the other networks leave open is as on this one.
_FIRST_NETWORK = "infiniband-ndr"

SOURCES = {
    "gpus": "ai-dynamo/aiconfigurator (commit 095f58a, Apache-2.0)",
    "infiniband-ndr": "NVIDIA/nccl-tests issues (HGX H100) and a test of 16 B200 at Vultr",
    "infiniband-hdr": "argonne-lcf/alcf-nccl-tests (DGX A100)",
    "efa": "aws-samples/awsome-distributed-training (2 p5.48xlarge, 2 p4de.24xlarge)",
    "gib": "google/dranet (2 A4)",
    "slingshot": "argonne-lcf/alcf-nccl-tests (Polaris, plugin aws-ofi)",
    "sockets": "argonne-lcf/alcf-nccl-tests (Polaris, no plugin)",
}

# Trees do inside a node what rings do there. What NVLS trees do, no measurement of one node shows.
_INSIDE_AS = {Algorithm.TREE: Algorithm.RING, Algorithm.NVLS_TREE: Algorithm.NVLS_TREE}
_SHARED = ("base_ns", "step_ns", "efficiency")
# How far the first rounds look beyond the fastest way, as a factor's logarithm; then not at all.
_SOFTNESS = (0.1, 0.0)
# How far off, as a factor's logarithm, one measurement may be to spare a constant a change by a
# factor of e. Networks have few measurements, of few layouts.
_PULL = {"gpus": 0.02, "networks": 0.05}
_DETERMINED = 1e-6

# Links carry no more than they can, and a copy of the own part costs no more than sending it.
_HIGHEST = {"efficiency": 1.0, "own_weight": 1.0}
_LOWEST = {"own_weight": 0.01}

# Factors on what a fit of a network starts from.
_STARTS = {"fill_limit_bytes": (0.1, 1.0, 10.0), "fill_ns_per_mb": (0.1, 1.0, 10.0)}


# Latencies of a step between nodes. Source: hwLat in src/graph/tuning.cc of NCCL 2.20.3. That a
# message costs as much as a step, the efficiencies (half a line of LL is flags, a sixteenth of one
# of LL128) and how pipelines fill are assumed.
_STEPS_NS: Mapping[Way, float] = {
    (Algorithm.RING, Protocol.LL): 2_700,
    (Algorithm.RING, Protocol.LL128): 4_000,
    (Algorithm.RING, Protocol.SIMPLE): 14_000,
    (Algorithm.TREE, Protocol.LL): 5_000,
    (Algorithm.TREE, Protocol.LL128): 8_500,
    (Algorithm.TREE, Protocol.SIMPLE): 14_000,
    (Algorithm.NVLS_TREE, Protocol.SIMPLE): 14_000,
}
_MESSAGES_NS = {Protocol.LL: 2_700, Protocol.SIMPLE: 14_000}
_EFFICIENCIES = {Protocol.LL: 0.3, Protocol.LL128: 0.8, Protocol.SIMPLE: 0.9}
_FILLS = {
    Protocol.LL: (200_000, 50_000),
    Protocol.LL128: (4_000_000, 5_000),
    Protocol.SIMPLE: (60_000_000, 1_000),
}
"""Bytes up to which filling takes longer, and nanoseconds for a megabyte."""


_NETWORK_WAYS = [
    *_STEPS_NS,
    (Algorithm.DIRECT, Protocol.LL),
    (Algorithm.DIRECT, Protocol.SIMPLE),
]


def network_start(ways: Iterable[Way]) -> Parts:
    """Costs that no measurement went into."""
    parts = {}
    for algorithm, protocol in ways:
        limit_bytes, ns_per_mb = _FILLS[protocol]
        efficiency = _EFFICIENCIES[protocol]
        parts[algorithm, protocol] = Part(
            base_ns=2_000 if algorithm is Algorithm.DIRECT else 0,
            message_ns=_MESSAGES_NS[protocol] if algorithm is Algorithm.DIRECT else 0,
            step_ns=_STEPS_NS.get((algorithm, protocol), 0),
            efficiency=efficiency,
            fill_limit_bytes=limit_bytes / 16 if algorithm is Algorithm.RING else limit_bytes,
            fill_ns_per_mb=ns_per_mb,
        )
    return parts


def start_of(folder: str, name: str) -> Parts:
    """What a fit starts from: inside a node the costs that are there."""
    if folder == "gpus":
        return tuning.read_parts(COSTS / folder / f"{name}.toml")
    if name == _FIRST_NETWORK:
        return network_start(_NETWORK_WAYS)
    return tuning.read_parts(COSTS / folder / f"{_FIRST_NETWORK}.toml")


class Tried:
    """Costs that the fit is at: the same for all ranks."""

    def __init__(self, cluster: Cluster, nodes: int) -> None:
        self.costs: Tuning = {}
        self._rates = CHANNEL_RATES[cluster.collectives]
        self._library = Library(cluster, nodes, cluster.calibration)

    def machine(self, group: Group, topology: Topology) -> Machine | None:
        """What NCCL sees."""
        return self._library.machine(group, topology)

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
        self.gpus, self.network = cluster.collectives, cluster.nic.network
        self._tried = Tried(cluster, max(case.nodes for case in cases))
        for case in cases:
            if case.gpus not in self._places:
                topology = Topology(cluster, case.nodes)
                node_gpus = case.gpus // case.nodes
                group = Group(
                    range(case.gpus), [Gpu(*divmod(rank, node_gpus)) for rank in range(case.gpus)]
                )
                environment = NcclEnvironment.read(
                    dict(case.system.environment), case.system.version
                )
                selection = Selection(topology, self._tried, environment)
                self._places[case.gpus] = selection, group

        network = tuning.load_tuning(self.gpus, self.network, cluster.calibration)
        self._tried.costs = network
        self._ways = [
            self._places[case.gpus][0].way(case.operation, self._places[case.gpus][1])
            if case.nodes > 1
            else None
            for case in cases
        ]
        """What NCCL chooses between nodes, whatever it costs."""
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

    def residuals(
        self, inside: Parts, between: Parts, softness: float, only: Way | None = None
    ) -> list[float]:
        """Logarithms of estimated over measured times; `only`: of what is done so."""
        self._tried.costs = tuning.combine(inside, between)
        found = np.zeros(len(self.cases))
        for cases, buffer_bytes, places in self._alike:
            selection, group = self._places[cases[0].gpus]
            times_ns = {
                way: np.log(
                    one.base_ns
                    + one.ns_per_byte * buffer_bytes
                    + one.fill_ns_per_byte * np.minimum(buffer_bytes, one.fill_bytes)
                )
                for way, one in selection.lines(cases[0].operation, group).items()
            }
            if self._ways[places[0]] is None:
                found[places] = _soft_minimum(np.array(list(times_ns.values())), softness)
            else:
                for number, place in enumerate(places):
                    way = self._ways[place]
                    assert way is not None, "those of one operation are all chosen"
                    found[place] = times_ns[way][number]
        residuals = found - self._log_measured_ns
        if only is None:
            return list(residuals)
        return [one for one, way in zip(residuals, self._ways, strict=True) if way == only]


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
    return {way: Part(**part) for way, part in changed.items()}


def fit_costs(
    folder: str, name: str, models: Sequence[Model], start_parts: Parts | None = None
) -> tuple[Parts, set[tuple[Way, str]]]:
    """Fitted costs, and what of them no measurement depends on; by default from what is there.

    From other costs a network's are fitted from one start, for the time that several take.
    """
    parts = start_parts or start_of(folder, name)
    others = {
        model: tuning.read_parts(
            COSTS / f"networks/{model.network}.toml"
            if folder == "gpus"
            else COSTS / f"gpus/{model.gpus}.toml"
        )
        for model in models
    }

    def residuals(changed: Parts, softness: float, only: Way | None = None) -> list[float]:
        found: list[float] = []
        for model in models:
            pair = (changed, others[model]) if folder == "gpus" else (others[model], changed)
            found += model.residuals(*pair, softness, only)
        return found

    if folder == "networks":
        return _fit_network(parts, residuals, {} if start_parts else _STARTS)
    constants = constants_of(parts, folder)
    values = np.array([one.start for one in constants])
    for softness in _SOFTNESS:
        result = _fit(
            constants,
            values,
            _PULL[folder],
            partial(residuals, softness=softness),
            parts,
        )
        values = result.constants
    undetermined = _undetermined(constants, result)
    values = extrapolated(constants, values, undetermined)
    return with_constants(parts, constants, values), undetermined


def _fit_network(
    parts: Parts,
    residuals: Callable[..., list[float]],
    starts: Mapping[str, tuple[float, ...]],
) -> tuple[Parts, set[tuple[Way, str]]]:
    """What NCCL chooses between nodes does not depend on the costs: each way has its own fit, the
    best of several starts.
    """
    everything = constants_of(parts, "networks")
    values = {one: one.start for one in everything}
    measured = [way for way in parts if residuals(parts, softness=0.0, only=way)]
    undetermined = {(one.way, one.field) for one in everything if one.way not in measured}
    reached: dict[Algorithm, float] = {}
    for way in sorted(measured, key=lambda one: one[1] is Protocol.LL):
        own = [one for one in everything if one.way == way]
        # LL begins with as much less of the links as Simple, before it, turned out to reach.
        part = reached.get(way[0], 1.0) if way[1] is Protocol.LL else 1.0
        begun = [_times(one, part) if one.field == "efficiency" else one for one in own]
        best = _best_fit(begun, partial(residuals, softness=0.0, only=way), parts, starts)
        values |= dict(zip(own, map(float, best.constants), strict=True))
        undetermined |= _undetermined(begun, best)
        if way[1] is Protocol.SIMPLE:
            (one,) = (one for one in own if one.field == "efficiency")
            reached[way[0]] = values[one] / one.start
    fitted = np.array([values[one] for one in everything])
    everywhere = extrapolated(everything, fitted, undetermined)
    # Near its value a constant may decide nothing, because another does, and all at another value.
    before, after = (with_constants(parts, everything, x) for x in (fitted, everywhere))
    for way in measured:
        costs = [cost(np.array(residuals(x, softness=0.0, only=way))) for x in (before, after)]
        if costs[1] > costs[0] + _DETERMINED:
            own_places = [one.way == way for one in everything]
            everywhere[own_places] = fitted[own_places]
    return with_constants(parts, everything, everywhere), undetermined


def _times(one: Constant, factor: float) -> Constant:
    return one._replace(start=one.start * factor)


def _best_fit(
    constants: Sequence[Constant],
    residuals: Callable[[Parts], list[float]],
    parts: Parts,
    starts: Mapping[str, tuple[float, ...]],
) -> Fit:
    start = np.array([one.start for one in constants])
    fits = (
        _fit(constants, start * np.array(factors), _PULL["networks"], residuals, parts)
        for factors in product(*(starts.get(one.field, (1.0,)) for one in constants))
    )
    return min(fits, key=lambda found: cost(found.residuals))


def _fit(
    constants: Sequence[Constant],
    start: Vector,
    pull: float,
    residuals: Callable[[Parts], list[float]],
    parts: Parts,
) -> Fit:
    """`residuals` of other costs, and what the constants' distance from where they were counts."""
    before = np.array([one.start for one in constants])
    return fit(
        lambda x: np.array(
            residuals(with_constants(parts, constants, x)) + list(pull * np.log(x / before))
        ),
        start,
        np.array([_LOWEST.get(one.field, 1e-4) for one in constants]),
        np.array([_HIGHEST.get(one.field, 1e12) for one in constants]),
    )


def _undetermined(constants: Sequence[Constant], result: Fit) -> set[tuple[Way, str]]:
    seen = np.abs(result.jacobian[: -len(constants)]).max(axis=0)
    return {
        (one.way, one.field)
        for one, effect in zip(constants, seen, strict=True)
        if effect < _DETERMINED
    }


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
                if case.system == system
                and case.role is Role.FITTED
                and case.operation.kind is _ONLY.get((name, system.name), case.operation.kind)
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
