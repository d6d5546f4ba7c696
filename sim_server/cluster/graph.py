"""Free-form fabrics: links between NICs and switches as a file lists them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sim_server.cluster.units import parse_bytes_per_s, parse_ns

_NIC = re.compile(r"nic ([0-9]{1,7})\.([0-9]{1,7})")
_EXAMPLE = '{ from = "nic 0.0", to = "switch a", bandwidth = "400 Gb/s", latency = "600 ns" }'
_TAKEN = ("gpu", "nvswitch", "host", "memory", "pcie")
_KEYS = {"from", "to", "bandwidth", "latency"}


@dataclass(frozen=True)
class GraphLink:
    """One connection, in both directions."""

    one: str
    """Name of a vertex: "nic N.I" is NIC I of node N; anything else is a switch."""
    other: str
    bandwidth_bytes_per_s: int
    latency_ns: int


def parse_links(value: object) -> tuple[GraphLink, ...]:
    """Links from a list of tables. Raises: ValueError."""
    if not isinstance(value, list) or not value:
        raise ValueError(f"{value!r} is not a list of links; write as many as {_EXAMPLE}")
    return tuple(_parse_link(number, one) for number, one in enumerate(value, start=1))


def _parse_link(number: int, table: object) -> GraphLink:
    if not isinstance(table, Mapping) or set(table) != _KEYS:
        raise ValueError(f"number {number} is not a link; write it as {_EXAMPLE}")
    try:
        ends = table["from"], table["to"]
        for end in ends:
            if not isinstance(end, str) or not end.strip():
                raise ValueError(f"{end!r} is not the name of a NIC or a switch")
            if end.split()[0] in _TAKEN:
                raise ValueError(f"'{end}' is no name of a switch: nodes have such parts")
            if end.split()[0] == "nic" and not _NIC.fullmatch(end):
                raise ValueError(f"'{end}' is not a NIC; number I of node N is \"nic N.I\"")
        if ends[0] == ends[1]:
            raise ValueError(f"'{ends[0]}' is joined to itself")
        return GraphLink(*ends, parse_bytes_per_s(table["bandwidth"]), parse_ns(table["latency"]))
    except ValueError as error:
        raise ValueError(f"number {number}: {error}") from error


def check_nic(value: object) -> str:
    """The name of a NIC. Raises: ValueError."""
    if not isinstance(value, str) or not _NIC.fullmatch(value):
        raise ValueError(f'{value!r} is not a NIC; number I of node N is "nic N.I"')
    return value


def nic_place(name: str) -> tuple[int, int]:
    """Node and number in the node of a NIC."""
    found = _NIC.fullmatch(name)
    assert found is not None, f"{name} was checked when the file was read"
    return int(found[1]), int(found[2])


def graph_nodes(links: tuple[GraphLink, ...]) -> int:
    """How many nodes' NICs the links name."""
    found = (_NIC.fullmatch(end) for link in links for end in (link.one, link.other))
    return 1 + max((int(one[1]) for one in found if one), default=-1)


def graph_fault(links: tuple[GraphLink, ...], nics_of: Callable[[int], int]) -> str | None:
    """What is wrong with a graph as a whole, with so many NICs on a node; None when nothing is."""
    pairs = Counter(frozenset((link.one, link.other)) for link in links)
    for pair, count in pairs.items():
        if count > 1:
            return f"{' and '.join(sorted(pair))} are joined {count} times; add up their bandwidths"
    neighbours: dict[str, set[str]] = defaultdict(set)
    for link in links:
        neighbours[link.one].add(link.other)
        neighbours[link.other].add(link.one)
    if graph_nodes(links) > len(links):
        return f"they name {graph_nodes(links)} nodes and are {len(links)}: nodes without a link"
    nics = [
        f"nic {node}.{nic}" for node in range(graph_nodes(links)) for nic in range(nics_of(node))
    ]
    for name in neighbours:
        if _NIC.fullmatch(name) and name not in nics:
            per_node = nics_of(nic_place(name)[0])
            return f"'{name}' is not a NIC: there are nic.per_node = {per_node} a node"
    for nic in nics:
        if nic not in neighbours:
            return f"'{nic}' has no link; every NIC of a node needs one"
    for nic in nics[1:]:
        if nic not in (reached := _reach(nics[0], neighbours)):
            return f"there is no way from '{nics[0]}' to '{nic}', which has " + (
                f"only {', '.join(sorted(neighbours[nic] - reached)) or 'NICs'} next to it"
            )
    return _dead_end(neighbours)


def _reach(start: str, neighbours: Mapping[str, set[str]]) -> set[str]:
    found, todo = {start}, [start]
    while todo:
        here = todo.pop()
        if here == start or not _NIC.fullmatch(here):
            fresh = neighbours[here] - found
            found |= fresh
            todo += fresh
    return found


def _dead_end(neighbours: Mapping[str, set[str]]) -> str | None:
    """A link that leads to no NIC is unused, and most likely a slip."""
    for name, others in neighbours.items():
        if not _NIC.fullmatch(name) and len(others) == 1:
            return f"the link of '{name}' and '{next(iter(others))}' is unused: it leads no further"
    return None
