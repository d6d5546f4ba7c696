"""Each system predicted from the others: costs are fitted anew with one system left out.

Of a system its description is used (its cluster), never its times: the costs of its kind of GPU, or
of its transport, are fitted to all other systems that have them, at all numbers of GPUs. Such a fit
starts from costs that know nothing of the system: those of another architecture, or, of networks,
the latencies of NCCL's own model. Where there is no other such system, the start is the prediction.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from network_comparison import figures
from network_fit import COSTS, Model, fit_costs, network_start
from network_systems import SEVERAL_NODES, SINGLE_NODE, Case, System, cluster_of

from sim_server.cluster import load_cluster
from sim_server.collectives import tuning
from sim_server.collectives.tuning import Parts

# The architecture that a fit starts from.
_RELATIVES = {
    "ampere": "hopper",
    "hopper": "blackwell",
    "blackwell": "hopper",
    "pcie": "ampere",
}


_HEAD = """### Each system from the others

Costs fitted anew without any time of the system, to all others of its kind of GPU (single node) or
transport (several nodes) at all numbers of GPUs, from a start that knows nothing of it: another
architecture's costs, or NCCL's own table of latencies. Where there are no others, the start is the
prediction. Of several nodes the network's costs are fitted anew, those inside a node stay. The L40S
is no clean case: its description was set by hand to its own times.

| | system | from | cases | median, absolute | 90th percentile | median, signed |
| --- | --- | --- | ---: | ---: | ---: | ---: |"""


class LeftOut(NamedTuple):
    """A system, what it is predicted from, and the errors."""

    system: System
    sources: tuple[str, ...]
    """Systems that its costs are fitted to; none where the start is the prediction."""
    errors: tuple[float, ...]
    """Predicted over measured times, less one."""


def left_out(cases: Mapping[Case, float]) -> Iterator[LeftOut]:
    """Every system that has measurements, predicted from the others."""
    for systems, folder in ((SINGLE_NODE, "gpus"), (SEVERAL_NODES, "networks")):
        models = {}
        for system in systems:
            own = {case: time_us for case, time_us in cases.items() if case.system == system}
            if own:
                models[system.name] = Model(cluster_of(system), own)
        for system in (one for one in systems if one.name in models):
            name = costs_of(system, folder)
            others = [
                one
                for one in systems
                if one is not system
                and one.sound
                and one.name in models
                and costs_of(one, folder) == name
            ]
            parts = start_of(folder, name)
            if others:
                parts, _ = fit_costs(folder, name, [models[one.name] for one in others], parts)
            model = models[system.name]
            pair = (
                (parts, tuning.read_parts(COSTS / f"networks/{model.network}.toml"))
                if folder == "gpus"
                else (tuning.read_parts(COSTS / f"gpus/{model.gpus}.toml"), parts)
            )
            errors = np.exp(model.residuals(*pair, 0.0)) - 1
            yield LeftOut(system, tuple(one.name for one in others), tuple(map(float, errors)))


def left_out_lines(found: Sequence[LeftOut]) -> Iterator[str]:
    """The section of docs/accuracy.md."""
    yield from _HEAD.splitlines()
    medians = {}
    for title, systems in (("single node", SINGLE_NODE), ("several nodes", SEVERAL_NODES)):
        rows = [one for one in found if one.system in systems]
        for one in rows:
            sources = "; ".join(one.sources) or "none"
            yield f"| {title} | {one.system.name} | {sources} | {figures(one.errors)} |"
        if rows:
            errors = [error for one in rows for error in one.errors]
            yield f"| {title} | **all** | | {figures(errors)} |"
            medians[title] = statistics.median(
                statistics.median(map(abs, one.errors)) for one in rows
            )
    yield ""
    values = " and ".join(f"{value:.1%} ({title})" for title, value in medians.items())
    yield f"The median of the systems' medians is {values}."


def costs_of(system: System, folder: str) -> str:
    """The costs that describe a system's GPUs, or its network."""
    cluster = load_cluster(cluster_of(system))
    return cluster.collectives if folder == "gpus" else cluster.nic.network


def start_of(folder: str, name: str) -> Parts:
    """Costs that know nothing of any system that has these."""
    parts = tuning.read_parts(COSTS / folder / f"{name}.toml")
    if folder == "gpus":
        relative = tuning.read_parts(COSTS / folder / f"{_RELATIVES[name]}.toml")
        return {way: relative[way] for way in parts if way in relative}
    return network_start(parts)
