"""What joins the NICs of a cluster: switches and the connections between them, kind by kind.

A fabric is a list of connections; `sim_server.network.routes` finds the ways through it. Leaves and
spines with adaptive routing are the one exception: there the spines are one vertex, "core", and a
leaf's uplinks one link of their summed capacity, the fluid limit of spraying packets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, product
from typing import NamedTuple

from sim_server.cluster import Cluster, FabricKind, Routing, most_nodes
from sim_server.errors import UsageError


class Connection(NamedTuple):
    """Two vertices, joined in both directions."""

    one: str
    other: str
    capacity_bytes_per_s: int
    latency_ns: int


def connections(cluster: Cluster, nodes: int) -> Iterator[Connection]:
    """Those of the first `nodes` nodes. Raises: UsageError when so many do not fit."""
    most = most_nodes(cluster)
    if most is not None and nodes > most:
        raise UsageError(
            f"cluster {cluster.name}: {nodes} nodes do not fit: its fabric, "
            f"{cluster.fabric.kind.value}, has room for {most}; ask for fewer nodes or describe a "
            "larger one"
        )
    yield from _KINDS[cluster.fabric.kind](cluster, nodes)


def leaf_numbers(cluster: Cluster, nodes: int) -> list[int]:
    """The leaf of each node where all NICs of a node are at one: the next one when it is full."""
    numbers: list[int] = []
    leaf, used = 0, 0
    for node in range(nodes):
        nics = cluster.node(node).nic.per_node
        if used + nics > cluster.fabric.leaf_downlinks:
            leaf, used = leaf + 1, 0
        used += nics
        numbers.append(leaf)
    return numbers


def _nic_links(
    cluster: Cluster, nodes: int, switch: Callable[[int, int], str]
) -> Iterator[Connection]:
    """Every NIC at the switch that `switch` says for its node and its number."""
    others = {one.nic: one.bandwidth_bytes_per_s for one in cluster.nic_exceptions}
    for node in range(nodes):
        nic = cluster.node(node).nic
        for number in range(nic.per_node):
            name = f"nic {node}.{number}"
            bandwidth_bytes_per_s = others.get(name, nic.bandwidth_bytes_per_s)
            yield Connection(name, switch(node, number), bandwidth_bytes_per_s, nic.latency_ns)


def _leaf_spine(cluster: Cluster, nodes: int) -> Iterator[Connection]:
    """All NICs of a node at one leaf."""
    leaf = leaf_numbers(cluster, nodes)
    yield from _nic_links(cluster, nodes, lambda node, _: f"leaf {leaf[node]}")
    leaves = leaf[-1] + 1
    if leaves > 1:
        yield from _uplinks(cluster, [f"leaf {number}" for number in range(leaves)])


def _rail_optimised(cluster: Cluster, nodes: int) -> Iterator[Connection]:
    """NICs of equal number at one leaf, as many nodes as it has ports; spines above all leaves."""
    per_leaf = cluster.fabric.leaf_downlinks
    yield from _nic_links(cluster, nodes, lambda node, nic: f"leaf {node // per_leaf}.{nic}")
    rails = max(node.nic.per_node for node in cluster.node_types(nodes))
    leaves = product(range(-(-nodes // per_leaf)), range(rails))
    yield from _uplinks(cluster, [f"leaf {block}.{nic}" for block, nic in leaves])


def _rail_only(cluster: Cluster, nodes: int) -> Iterator[Connection]:
    """NICs of equal number at one switch, and nothing that joins these."""
    yield from _nic_links(cluster, nodes, lambda _, nic: f"rail {nic}")


def _uplinks(cluster: Cluster, leaves: list[str]) -> Iterator[Connection]:
    fabric, nic = cluster.fabric, cluster.nic
    down_bytes_per_s = fabric.leaf_downlinks * nic.bandwidth_bytes_per_s
    up_bytes_per_s = int(down_bytes_per_s / fabric.oversubscription)
    for leaf in leaves:
        if fabric.routing is Routing.ADAPTIVE:
            yield Connection(leaf, "core", up_bytes_per_s, fabric.latency_ns)
            continue
        for spine in range(fabric.spines):
            part_bytes_per_s = up_bytes_per_s // fabric.spines
            yield Connection(leaf, f"spine {spine}", part_bytes_per_s, fabric.latency_ns)


def _fat_tree(cluster: Cluster, nodes: int) -> Iterator[Connection]:
    """k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores; k/2 NICs on an edge switch.

    Source: Al-Fares, Loukissas and Vahdat, "A scalable, commodity data center network
    architecture", SIGCOMM 2008.
    """
    assert cluster.fabric.ports is not None, "checked when the file was read"
    half = cluster.fabric.ports // 2

    def edge(node: int, number: int) -> str:
        pod, at = divmod((cluster.first_nic(node) + number) // half, half)
        return f"edge {pod}.{at}"

    yield from _nic_links(cluster, nodes, edge)
    pods = -(-cluster.first_nic(nodes) // half**2)
    speed = _switch_link(cluster)
    for pod, one, other in product(range(pods), range(half), range(half)):
        yield Connection(f"edge {pod}.{one}", f"aggregation {pod}.{other}", *speed)
    for pod, one, other in product(range(pods), range(half), range(half)):
        yield Connection(f"aggregation {pod}.{one}", f"core {one * half + other}", *speed)


def _dragonfly(cluster: Cluster, nodes: int) -> Iterator[Connection]:
    """Groups of routers that are all joined, and one connection between every two groups.

    The connections of a group are dealt out to its routers in turn. Source: Kim, Dally, Scott and
    Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008.
    """
    fabric = cluster.fabric
    assert fabric.groups is not None, "checked when the file was read"
    assert fabric.routers is not None
    assert fabric.router_nics is not None
    routers, router_nics = fabric.routers, fabric.router_nics

    def router(node: int, number: int) -> str:
        group, at = divmod((cluster.first_nic(node) + number) // router_nics, routers)
        return f"router {group}.{at}"

    yield from _nic_links(cluster, nodes, router)
    speed = _switch_link(cluster)
    for group in range(fabric.groups):
        for one, other in combinations(range(routers), 2):
            yield Connection(f"router {group}.{one}", f"router {group}.{other}", *speed)
    for one, other in combinations(range(fabric.groups), 2):
        yield Connection(
            f"router {one}.{(other - 1) % routers}", f"router {other}.{one % routers}", *speed
        )


def _torus(cluster: Cluster, nodes: int) -> Iterator[Connection]:
    """One router a node, joined to its neighbours in two or three dimensions, around the ends."""
    shape = cluster.fabric.shape
    places = list(product(*map(range, shape)))
    names = {place: f"router {'.'.join(map(str, place))}" for place in places}
    yield from _nic_links(cluster, nodes, lambda node, _: names[places[node]])
    for place in places:
        for dimension, length in enumerate(shape):
            # Two in a ring are neighbours once, not twice.
            if length > 2 or place[dimension] < length - 1:
                beyond = list(place)
                beyond[dimension] = (place[dimension] + 1) % length
                yield Connection(names[place], names[tuple(beyond)], *_switch_link(cluster))


def _graph(cluster: Cluster, nodes: int) -> Iterator[Connection]:
    """What the file says, without the NICs of further nodes."""
    for link in cluster.fabric.links:
        ends = (link.one, link.other)
        if all(not end.startswith("nic ") or _node_of(end) < nodes for end in ends):
            yield Connection(*ends, link.bandwidth_bytes_per_s, link.latency_ns)


def _node_of(nic: str) -> int:
    return int(nic.split()[1].split(".", maxsplit=1)[0])


def _switch_link(cluster: Cluster) -> tuple[int, int]:
    """Capacity and latency between switches."""
    fabric = cluster.fabric
    return fabric.link_bytes_per_s or cluster.nic.bandwidth_bytes_per_s, fabric.latency_ns


_KINDS: Mapping[FabricKind, Callable[[Cluster, int], Iterator[Connection]]] = {
    FabricKind.LEAF_SPINE: _leaf_spine,
    FabricKind.RAIL_OPTIMISED: _rail_optimised,
    FabricKind.RAIL_ONLY: _rail_only,
    FabricKind.FAT_TREE: _fat_tree,
    FabricKind.DRAGONFLY: _dragonfly,
    FabricKind.TORUS: _torus,
    FabricKind.GRAPH: _graph,
}
