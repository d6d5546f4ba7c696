"""What a description of a fabric has to fulfil as a whole, kind by kind."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from sim_server.cluster.description import Cluster, FabricKind, Routing
from sim_server.cluster.graph import graph_fault, graph_nodes
from sim_server.cluster.limits import MOST_VERTICES
from sim_server.files.schema import shown

# What each kind needs beside leaf_downlinks, spines, oversubscription, routing, seed and latency,
# which every file has from its base.
_NEEDED: Mapping[FabricKind, tuple[str, ...]] = {
    FabricKind.LEAF_SPINE: (),
    FabricKind.RAIL_OPTIMISED: (),
    FabricKind.RAIL_ONLY: (),
    FabricKind.FAT_TREE: ("ports",),
    FabricKind.DRAGONFLY: ("groups", "routers", "router_nics"),
    FabricKind.TORUS: ("shape",),
    FabricKind.GRAPH: ("links",),
}
_OPTIONAL = (FabricKind.FAT_TREE, FabricKind.DRAGONFLY, FabricKind.TORUS)
_SPREAD = (FabricKind.LEAF_SPINE, FabricKind.RAIL_OPTIMISED, FabricKind.RAIL_ONLY)


def most_nodes(cluster: Cluster) -> int | None:
    """How many nodes the fabric has room for; None is any number."""
    fabric = cluster.fabric
    if fabric.kind is FabricKind.FAT_TREE:
        return _nodes_at((fabric.ports or 0) ** 3 // 4, cluster)
    if fabric.kind is FabricKind.DRAGONFLY:
        places = (fabric.groups or 0) * (fabric.routers or 0) * (fabric.router_nics or 0)
        return _nodes_at(places, cluster)
    if fabric.kind is FabricKind.TORUS:
        return prod(fabric.shape)
    if fabric.kind is FabricKind.RAIL_ONLY:
        return fabric.leaf_downlinks
    return graph_nodes(fabric.links) if fabric.kind is FabricKind.GRAPH else None


def _nodes_at(places: int, cluster: Cluster) -> int:
    """How many nodes have NICs enough for so many places."""
    nodes = 0
    for group in cluster.node_groups:
        fitting = min(group.nodes, places // group.nic.per_node)
        nodes += fitting
        places -= fitting * group.nic.per_node
        if fitting < group.nodes:
            return nodes
    return nodes + places // cluster.nic.per_node


def fabric_fault(cluster: Cluster) -> str | None:
    """What is wrong with a cluster's fabric; None when nothing is."""
    fault = _settings_fault(cluster) or _size_fault(cluster) or _shape_fault(cluster)
    most = None if fault else most_nodes(cluster)
    if most is not None and (cluster.nodes or 1) > most:
        fault = (
            f"nodes = {cluster.nodes or 1} do not fit: the {cluster.fabric.kind.value} has room "
            f"for {most}"
        )
    return fault


def _size_fault(cluster: Cluster) -> str | None:
    """Switches and links that no machine has the memory for: counts are products."""
    fabric = cluster.fabric
    counts = {
        "fabric.ports": (fabric.ports or 0) ** 3 // 4,
        "fabric.groups, routers and router_nics": (fabric.groups or 0)
        * (fabric.routers or 0)
        * ((fabric.routers or 0) + (fabric.router_nics or 0)),
        "fabric.groups": (fabric.groups or 0) ** 2,
        "fabric.shape": prod(fabric.shape),
        "fabric.spines": fabric.spines,
        "nodes": sum(
            (one.nodes or 0) * max(one.gpus_per_node, one.nic.per_node)
            for one in cluster.node_groups or (cluster,)
        ),
    }
    for name, count in counts.items():
        if count > MOST_VERTICES:
            return f"{name}: a cluster of {shown(count)} parts or more is not simulated"
    return None


def nodes_fault(cluster: Cluster, nodes: int) -> str | None:
    """Whether so many nodes are more than can be simulated."""
    gpus = max(max(one.gpus_per_node, one.nic.per_node) for one in cluster.node_types())
    leaves = -(-nodes * cluster.nic.per_node // cluster.fabric.leaf_downlinks)
    for what, count in (
        ("GPUs", nodes * gpus),
        ("links of spines", leaves * cluster.fabric.spines),
    ):
        if count > MOST_VERTICES:
            return f"{nodes:,} nodes of cluster {cluster.name} have {count:,} {what}; at most " + (
                f"{MOST_VERTICES:,} are simulated"
            )
    return None


def _settings_fault(cluster: Cluster) -> str | None:
    """Settings that are missing, or of another kind of fabric."""
    fabric = cluster.fabric
    needed = _NEEDED[fabric.kind]
    for name in needed:
        if not getattr(fabric, name):
            return f'fabric.{name} is missing; topology = "{fabric.kind.value}" needs it'
    others = {name for names in _NEEDED.values() for name in names} - set(needed)
    for name in sorted(others):
        if getattr(fabric, name):
            return f'fabric.{name} is of no use with topology = "{fabric.kind.value}"; remove it'
    if fabric.link_bytes_per_s and fabric.kind not in _OPTIONAL:
        return f'fabric.link_bandwidth is of no use with topology = "{fabric.kind.value}"'
    if fabric.routing is Routing.ADAPTIVE and fabric.kind not in _SPREAD:
        return (
            f'fabric.routing = "adaptive" is not modelled with topology = "{fabric.kind.value}"; '
            'use "ecmp" or "single"'
        )
    return None


def _shape_fault(cluster: Cluster) -> str | None:
    fabric = cluster.fabric
    for nics in (one.nic.per_node for one in (cluster, *cluster.node_groups)):
        if fabric.kind is FabricKind.LEAF_SPINE and fabric.leaf_downlinks % nics != 0:
            return (
                f"fabric.leaf_downlinks = {fabric.leaf_downlinks} is not a multiple "
                f"of nic.per_node = {nics}; all NICs of a node are on one leaf"
            )
    if fabric.ports is not None and fabric.ports % 2 != 0:
        return f"fabric.ports = {fabric.ports} is odd; half of a switch's ports lead up"
    if fabric.kind is FabricKind.TORUS and (len(fabric.shape) not in (2, 3) or 1 in fabric.shape):
        return (
            f"fabric.shape = {list(fabric.shape)} is no torus; write two or three numbers of at "
            "least 2"
        )
    if fabric.kind is FabricKind.GRAPH:
        fault = graph_fault(fabric.links, lambda node: cluster.node(node).nic.per_node)
        return fault and f"fabric.links: {fault}"
    return None
