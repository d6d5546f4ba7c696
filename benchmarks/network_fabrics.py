"""The two-sided error of communication between nodes by fabric, number of nodes and size."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from network_comparison import Comparison, percentile
from network_systems import Role, cluster_of

from sim_server.cluster import load_cluster
from sim_server.gpu import load_gpu

FABRICS = {
    "infiniband-ndr": "InfiniBand NDR",
    "infiniband-hdr": "InfiniBand HDR",
    "roce": "RoCE",
    "spectrum-x": "Spectrum-X",
    "efa": "EFA",
    "slingshot": "Slingshot",
    "gib": "Google gIB",
    "tcpxo": "Google TCPXO",
    "sockets": "TCP",
}
"""By the name of their costs."""

_SIZES = (
    ("up to 64 KiB", 64 << 10),
    ("up to 4 MiB", 4 << 20),
    ("up to 256 MiB", 256 << 20),
    ("above", 1 << 62),
)


class Aim(NamedTuple):
    """What held-out errors, either way, should be at most."""

    nodes: str
    median: float
    ninetieth: float


_FEW = Aim("2 to 4", 0.08, 0.20)
_MANY = Aim("more", 0.12, 0.30)
_MOST_OF_FEW = 4

_HEAD = """### By fabric

Errors either way of what is between nodes and held out: every second size of the systems that the
costs are fitted to, and systems to which nothing is fitted; those known to be broken are not in it.
The interval is that of the report, of the fabric where it has one. A fabric without a row has no
measurement: its costs are another's and its interval is assumed (docs/network.md).
"""
_COLUMNS = (
    "| fabric | nodes | held out | sizes | cases | median, either way | 90th percentile | aim "
    "| within the interval |",
    "| --- | --- | --- | --- | ---: | ---: | ---: | --- | ---: |",
)


def within(found: Sequence[Comparison], interval: str) -> str:
    """How many are in an interval that the profiles give to communication."""
    low, high, _ = load_gpu("h100").intervals[interval]
    inside = statistics.fmean(low <= one.measured_us / one.simulated_us <= high for one in found)
    mark = " **narrow**" if inside < 0.85 else " **wide**" if inside > 0.95 else ""
    return f"{inside:.0%}{mark}"


def fabric_lines(found: Sequence[Comparison]) -> Iterator[str]:
    """The section of docs/accuracy.md."""
    yield from [*_HEAD.splitlines(), "", *_COLUMNS]
    groups: dict[tuple[str, Aim, str], list[Comparison]] = defaultdict(list)
    for one in found:
        role = one.case.role
        if one.case.nodes > 1 and one.case.system.sound and role is not Role.FITTED:
            aim = _FEW if one.case.nodes <= _MOST_OF_FEW else _MANY
            held_out = "sizes" if role is Role.SIZES else "systems"
            network = load_cluster(cluster_of(one.case.system)).nic.network
            groups[network, aim, held_out].append(one)
            groups["", aim, held_out].append(one)
    for network in (*FABRICS, ""):
        for (name, aim, held_out), rows in sorted(groups.items()):
            if name != network:
                continue
            title = FABRICS.get(network, "**all**")
            interval = f"communication over {network}" if network else "communication between nodes"
            start = f"| {title} | {aim.nodes} | {held_out} |"
            yield f"{start} all | {_figures(rows)} | {_met(rows, aim)} | {within(rows, interval)} |"
            least = 0
            for size, most in _SIZES:
                some = [one for one in rows if least < one.case.size_bytes <= most]
                least = most
                if network and some:
                    yield f"{start} {size} | {_figures(some)} | | {within(some, interval)} |"


def _figures(rows: Sequence[Comparison]) -> str:
    errors = [one.either_way for one in rows]
    return f"{len(rows)} | {statistics.median(errors):.1%} | {percentile(errors, 0.9):.1%}"


def _met(rows: Sequence[Comparison], aim: Aim) -> str:
    errors = [one.either_way for one in rows]
    met = statistics.median(errors) <= aim.median and percentile(errors, 0.9) <= aim.ninetieth
    return f"{aim.median:.0%} and {aim.ninetieth:.0%}: {'met' if met else '**missed**'}"
