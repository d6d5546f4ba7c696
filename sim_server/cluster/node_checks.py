"""What a description of nodes has to fulfil as a whole, and what types of them have to share."""

from __future__ import annotations

from collections import Counter

from sim_server.cluster.description import Cluster, FabricKind, NodeType
from sim_server.cluster.graph import nic_place


def node_fault(cluster: Cluster) -> str | None:
    """What is wrong with a cluster's nodes; None when nothing is."""
    fault = _type_fault(cluster) or _sum_fault(cluster) or _exception_fault(cluster)
    if fault is not None:
        return fault
    for number, group in enumerate(cluster.node_groups, start=1):
        fault = _type_fault(group)
        if group.nic.transport != cluster.nic.transport:
            fault = (
                f'nic.transport = "{group.nic.transport}" is not the cluster\'s, '
                f'"{cluster.nic.transport}"; nodes that talk to each other share one'
            )
        if fault is not None:
            return f"node_groups {number}: {fault}"
    return None


def _type_fault(node: NodeType) -> str | None:
    nics, gpus, gpus_per_switch = node.nic.per_node, node.gpus_per_node, node.host.gpus_per_switch
    if gpus % nics != 0:
        return (
            f"nic.per_node = {nics} does not divide gpus_per_node = {gpus}; every NIC serves the "
            "same number of GPUs"
        )
    if gpus % gpus_per_switch != 0:
        return (
            f"host.gpus_per_switch = {gpus_per_switch} does not divide gpus_per_node = {gpus}; "
            "every PCIe switch has the same number of GPUs"
        )
    return None


def _sum_fault(cluster: Cluster) -> str | None:
    counts = [group.nodes for group in cluster.node_groups]
    if counts and sum(counts) != cluster.nodes:
        return (
            f"nodes = {cluster.nodes} are not those of the node_groups, "
            f"{' + '.join(map(str, counts))} = {sum(counts)}; leave 'nodes' out, or correct one"
        )
    return None


def _exception_fault(cluster: Cluster) -> str | None:
    if cluster.nic_exceptions and cluster.fabric.kind is FabricKind.GRAPH:
        return 'nic_exceptions are of no use with topology = "graph": fabric.links say it all'
    counts = Counter(one.nic for one in cluster.nic_exceptions)
    for name, count in counts.items():
        node, number = nic_place(name)
        if count > 1:
            return f"nic_exceptions: '{name}' is there {count} times"
        if cluster.nodes is not None and node >= cluster.nodes:
            return f"nic_exceptions: there is no '{name}': nodes are 0 to {cluster.nodes - 1}"
        per_node = cluster.node(node).nic.per_node
        if number >= per_node:
            return (
                f"nic_exceptions: there is no '{name}': NICs of node {node} are 0 to {per_node - 1}"
            )
    return None
