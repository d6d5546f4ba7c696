"""`phantora cluster`: which clusters there are, and what one is made of."""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rich.text import Text

from phantora_py.cli.cluster_drawing import draw
from phantora_py.text.units import duration_text
from phantora_py.text.wrapping import print_lines
from sim_server.cluster import (
    Cluster,
    FabricKind,
    NodeType,
    Routing,
    builtin_names,
    load_cluster,
    most_nodes,
    place,
)
from sim_server.errors import UsageError
from sim_server.files.output_file import require_output, write_file
from sim_server.network import Gpu, Topology
from sim_server.network.fabrics import leaf_numbers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `phantora cluster`."""
    parser.add_argument(
        "what", choices=("list", "show"), help="all built-in clusters, or one in detail"
    )
    parser.add_argument("cluster", nargs="?", metavar="NAME|FILE", help="with show: the cluster")
    parser.add_argument(
        "--nodes",
        type=int,
        metavar="N",
        help="with show: number of nodes; default: all, or as many as fill two leaf switches",
    )
    parser.add_argument("--svg", type=Path, metavar="FILE", help="also draw the links, as SVG")
    parser.add_argument("--json", action="store_true", help="print the description as JSON")


def run(options: argparse.Namespace) -> int:
    """Prints the list or the cluster."""
    if options.what == "list":
        if options.cluster is not None or options.nodes is not None:
            raise UsageError("phantora cluster list takes neither a cluster nor --nodes")
        clusters = [load_cluster(name) for name in builtin_names()]
        described = [cluster.to_dict() for cluster in clusters]
        if options.json:
            print(json.dumps(described, indent=1))
        else:
            print_lines(map(Text, _list(clusters)))
        return 0
    if options.cluster is None:
        raise UsageError("phantora cluster show needs a name or a file; see phantora cluster list")
    if options.svg is not None:
        require_output(options.svg, "--svg", [Path(options.cluster)])
    cluster = load_cluster(options.cluster)
    if options.json:
        print(json.dumps(cluster.to_dict(), indent=1))
        return 0
    nodes = options.nodes or cluster.nodes or most_nodes(cluster) or 2 * _nodes_per_leaf(cluster)
    place(cluster, nodes=nodes)  # raises if there are not so many
    print_lines(map(Text, _show(cluster, nodes)))
    if options.svg is not None:
        links = Topology(cluster, nodes).links
        models = {
            f"gpu {node}.{number}": cluster.node(node).gpu
            for node in range(nodes)
            for number in range(cluster.node(node).gpus_per_node)
        }
        picture = draw(links, f"{nodes} nodes of {cluster.name}", models)
        write_file(options.svg, picture.encode(), "--svg")
        print(f"Wrote {options.svg}")
    return 0


def _list(clusters: list[Cluster]) -> Iterator[str]:
    for cluster in clusters:
        nvlink = bandwidth_text(cluster.nvlink.bandwidth_bytes_per_s)
        nic = bandwidth_text(cluster.nic.bandwidth_bytes_per_s)
        yield (
            f"{cluster.name:8}  {cluster.gpus_per_node} x {cluster.gpu} a node, NVLink {nvlink}, "
            f"{cluster.nic.per_node} NICs of {nic}"
        )
    yield 'bandwidths are of one direction; a file may start from one of these: base = "h100"'


def _show(cluster: Cluster, nodes: int) -> Iterator[str]:
    size = "as many nodes as asked for" if cluster.nodes is None else f"{cluster.nodes} nodes"
    if cluster.node_groups:
        yield f"{cluster.name}: {size} of {len(cluster.node_groups)} groups"
        yield from _group_lines(cluster)
    else:
        yield f"{cluster.name}: {size} of {_node_text(cluster)}"
    for one in cluster.nic_exceptions:
        yield f"{one.nic} has {bandwidth_text(one.bandwidth_bytes_per_s)}"
    yield _fabric_line(cluster)
    topology = Topology(cluster, nodes)
    yield from _link_lines(topology, nodes)
    yield "paths:"
    for title, peer in _peers(cluster, nodes):
        path = topology.path(Gpu(0, 0), peer)
        stops = [topology.links[link].target.split()[0] for link in path]
        narrow_bytes_per_s = min(topology.links[link].capacity_bytes_per_s for link in path)
        yield (
            f"  {title:15} gpu, {', '.join(stops)}: {bandwidth_text(narrow_bytes_per_s)}, "
            f"{duration_text(topology.latency_ns(path))}"
        )


def _group_lines(cluster: Cluster) -> Iterator[str]:
    first = 0
    for group in cluster.node_groups:
        last = first + group.nodes - 1
        which = f"node {first}" if first == last else f"nodes {first}-{last}"
        yield f"  {which:12} {_node_text(group)}"
        first = last + 1


def _node_text(node: NodeType) -> str:
    return (
        f"{node.gpus_per_node} GPUs ({node.gpu}), {node.nic.per_node} NICs each; collectives as "
        f"on {node.collectives}"
    )


def _fabric_line(cluster: Cluster) -> str:
    fabric = cluster.fabric
    if fabric.kind is not FabricKind.LEAF_SPINE:
        room = most_nodes(cluster)
        size = "" if room is None else f", room for {room} nodes"
        return f"fabric: {fabric.kind.value}{size}, routing {fabric.routing.value}"
    spread = fabric.routing is Routing.ADAPTIVE
    how = "spread over all spines" if spread else "one spine for a flow"
    return (
        f"fabric: leaf and spine, {_nodes_per_leaf(cluster)} nodes on a leaf, {fabric.spines} "
        f"spines, oversubscription {fabric.oversubscription:g}, routing {fabric.routing.value} "
        f"({how})"
    )


def _link_lines(topology: Topology, nodes: int) -> Iterator[str]:
    yield f"links of {nodes} nodes, each direction:"
    # Connections are two links that follow each other.
    kinds = Counter(
        (
            f"{link.source.split()[0]} - {link.target.split()[0]}",
            link.capacity_bytes_per_s,
            link.latency_ns,
        )
        for link in topology.links[::2]
    )
    for (ends, capacity_bytes_per_s, latency_ns), count in kinds.items():
        bandwidth = bandwidth_text(capacity_bytes_per_s)
        yield f"  {ends:15} {count:6,} of {bandwidth:>10}, {duration_text(latency_ns)}"


def _peers(cluster: Cluster, nodes: int) -> Iterator[tuple[str, Gpu]]:
    """GPUs at growing distance from the first."""
    if cluster.node(0).gpus_per_node > 1:
        yield "in a node", Gpu(0, 1)
    if cluster.fabric.kind is not FabricKind.LEAF_SPINE:
        if nodes > 1:
            yield "next node", Gpu(1, 0)
        if nodes > 1 and cluster.node(1).gpus_per_node > 1:
            yield "other rail", Gpu(1, cluster.node(1).gpus_per_node - 1)
        if nodes > 2:
            yield "last node", Gpu(nodes - 1, 0)
        return
    if min(nodes, _nodes_per_leaf(cluster)) > 1:
        yield "in a leaf", Gpu(1, 0)
    if leaf_numbers(cluster, nodes)[-1] > 0:
        yield "between leaves", Gpu(nodes - 1, 0)


def _nodes_per_leaf(cluster: Cluster) -> int:
    return cluster.fabric.leaf_downlinks // cluster.node(0).nic.per_node


def bandwidth_text(bytes_per_s: float) -> str:
    """In 10^9 bytes per second, which is how links are compared here."""
    return f"{bytes_per_s / 1e9:.4g} GB/s"
