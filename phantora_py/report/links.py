"""How busy the cluster's links are over time, by class: NVLink, PCIe, NIC, those between switches.

A share of a link is what flows take of its capacity, what the protocol adds to the payload
included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import simpy

from phantora_py.data import RunData
from phantora_py.report.window import Window
from sim_server.collectives.communication import Communication
from sim_server.errors import UsageError
from sim_server.network.link_use import link_class

Shares = npt.NDArray[np.float64]

# From the GPU outwards.
_ORDER = ("NVLink", "PCIe", "NIC", "leaf uplink", "switch link")


@dataclass(frozen=True)
class ClassUse:
    """Links of a class. Shapes: [stretches of time]."""

    name: str
    mean: Shares
    """Of the capacity of all of them together."""
    busiest: Shares
    """Of the one that is most used, whichever that is at each time."""
    most: str
    """The link that was most used for the longest time; empty if none was used."""


def link_use(data: RunData, window: Window, slots: int) -> list[ClassUse]:
    """Every class that the window used, in slots of equal length; none if the window is empty."""
    edges_ns, classes = link_steps(data, window)
    slot_edges_ns = np.linspace(window.begin_ns, window.end_ns, slots + 1)
    return [
        ClassUse(
            one.name,
            _slotted(edges_ns, one.mean, slot_edges_ns),
            _slotted(edges_ns, one.busiest, slot_edges_ns),
            one.most,
        )
        for one in classes
    ]


def link_steps(data: RunData, window: Window) -> tuple[npt.NDArray[np.int64], list[ClassUse]]:
    """Every class that the window used, from each time at which flows change to the next, and
    these times; none if the window is empty.
    """
    if window.end_ns <= window.begin_ns:
        return np.empty(0, np.int64), []
    rows = data.link_use
    rows = rows[(rows["end_ns"] > window.begin_ns) & (rows["begin_ns"] < window.end_ns)]
    begins_ns = np.clip(rows["begin_ns"], window.begin_ns, window.end_ns)
    ends_ns = np.clip(rows["end_ns"], window.begin_ns, window.end_ns)
    edges_ns = np.unique(np.concatenate([begins_ns, ends_ns, [window.begin_ns, window.end_ns]]))
    places = np.searchsorted(edges_ns, [begins_ns, ends_ns])
    names = sorted({name for load in np.unique(rows["load"]) for name in data.link_loads[load]})
    names.sort(key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))
    found = []
    for name in names:
        mean, busiest = np.zeros(len(edges_ns) - 1), np.zeros(len(edges_ns) - 1)
        most_ns: dict[str, float] = {}
        for load, begin, end in zip(rows["load"].tolist(), *places.tolist(), strict=True):
            if name not in data.link_loads[load]:
                continue
            share, most, link = data.link_loads[load][name]
            # Flows that share no link are rows of their own, so that of each time several add up.
            mean[begin:end] += share
            np.maximum(busiest[begin:end], most, out=busiest[begin:end])
            used_ns = most * float(edges_ns[end] - edges_ns[begin])
            most_ns[link] = most_ns.get(link, 0.0) + used_ns
        most = max(sorted(most_ns), key=most_ns.__getitem__, default="")
        found.append(ClassUse(name, mean, busiest, most))
    return edges_ns, found


def capacities_bytes_per_s(data: RunData) -> dict[str, int]:
    """By class what its links carry together; empty where the file does not know its cluster."""
    try:
        told = data.told_settings
    except UsageError:
        return {}
    shape = (told.cluster, told.nodes, told.gpus_per_node, told.nccl_environment)
    sums: dict[str, int] = {}
    for link in Communication(simpy.Environment(), *shape, nccl_version=told.nccl_version).links:
        name = link_class(link)
        sums[name] = sums.get(name, 0) + link.capacity_bytes_per_s
    return sums


def _slotted(edges_ns: npt.NDArray[np.int64], shares: Shares, slot_edges_ns: Shares) -> Shares:
    """Means over slots of what is constant between edges."""
    sums = np.concatenate([[0.0], np.cumsum(shares * np.diff(edges_ns))])
    means: Shares = np.diff(np.interp(slot_edges_ns, edges_ns, sums)) / np.diff(slot_edges_ns)
    return means
