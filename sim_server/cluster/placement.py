"""Where the ranks of a run sit: nodes times GPUs per node, ranks in order."""

from __future__ import annotations

from dataclasses import dataclass

from sim_server.cluster.description import Cluster
from sim_server.cluster.fabric_checks import nodes_fault
from sim_server.errors import UsageError


@dataclass(frozen=True)
class Layout:
    """Rank r sits on node r // gpus_per_node, on GPU r % gpus_per_node."""

    nodes: int
    """Nodes in use."""
    gpus_per_node: int
    """GPUs in use on each of them."""

    @property
    def ranks(self) -> int:
        """Ranks of the run."""
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True)
class GpuNumbers:
    """Numbers of a run's GPUs: those that are a rank's own have its number, the others follow."""

    ranks_per_node: int
    nodes: int
    gpus_per_node: int
    """Of the largest node."""

    @classmethod
    def of(cls, cluster: Cluster, nodes: int, ranks_per_node: int) -> GpuNumbers:
        """Of ranks on the first nodes of a cluster."""
        largest = max(node.gpus_per_node for node in cluster.node_types(nodes))
        return cls(ranks_per_node, nodes, largest)

    def of_device(self, rank: int, device: int | None) -> int:
        """The GPU that is this device on a rank's node. None: the rank's own.

        Raises: ValueError if its node has no such device.
        """
        node, local_rank = divmod(rank, self.ranks_per_node)
        if device is None or device == local_rank:
            return rank
        if not 0 <= device < self.gpus_per_node:
            raise ValueError(f"rank {rank} has no device {device}")
        if device < self.ranks_per_node:
            return node * self.ranks_per_node + device
        without_rank = self.gpus_per_node - self.ranks_per_node
        ranks = self.nodes * self.ranks_per_node
        return ranks + node * without_rank + device - self.ranks_per_node

    def place(self, gpu: int) -> tuple[int, int]:
        """Node and place on it of a GPU."""
        ranks = self.nodes * self.ranks_per_node
        if gpu < ranks:
            return divmod(gpu, self.ranks_per_node)
        node, place = divmod(gpu - ranks, self.gpus_per_node - self.ranks_per_node)
        return node, self.ranks_per_node + place


def place(
    cluster: Cluster,
    ranks: int | None = None,
    nodes: int | None = None,
    gpus_per_node: int | None = None,
) -> Layout:
    """The layout for what the user gave; what is missing follows from the rest.

    Without `gpus_per_node` nodes are filled; without `ranks` and `nodes` there is one node.
    Raises: UsageError when the numbers contradict each other or the cluster is too small.
    """
    for name, value in (("ranks", ranks), ("nodes", nodes), ("GPUs per node", gpus_per_node)):
        if value is not None and value < 1:
            raise UsageError(f"{value} {name} were asked for; ask for at least 1")
    if gpus_per_node is None:
        gpus_per_node = _fill_nodes(cluster, ranks, nodes)
    if nodes is None:
        nodes = 1 if ranks is None else -(-ranks // gpus_per_node)
    layout = Layout(nodes, gpus_per_node)
    if (fault := nodes_fault(cluster, nodes)) is not None:
        raise UsageError(fault)
    fewest = min(node.gpus_per_node for node in cluster.node_types(nodes))
    if gpus_per_node > fewest:
        raise UsageError(
            f"{gpus_per_node} ranks per node do not fit: a node of cluster {cluster.name} has "
            f"{fewest} GPUs; use more nodes or a cluster with larger nodes"
        )
    if ranks is not None and layout.ranks != ranks:
        raise UsageError(
            f"{ranks} ranks are not {nodes} nodes with {gpus_per_node} ranks each; "
            f"ask for a multiple of {gpus_per_node} ranks or set the ranks per node"
        )
    if cluster.nodes is not None and nodes > cluster.nodes:
        raise UsageError(
            f"{layout.ranks} ranks need {nodes} nodes of {gpus_per_node} GPUs, but cluster "
            f"{cluster.name} has {cluster.nodes} nodes "
            f"({_gpus(cluster, cluster.nodes)} GPUs); ask for fewer ranks or raise "
            "'nodes' in the cluster's file"
        )
    return layout


def _fill_nodes(cluster: Cluster, ranks: int | None, nodes: int | None) -> int:
    """On mixed nodes as many as the smallest has, for ranks are the same number everywhere."""
    fewest = min(node.gpus_per_node for node in cluster.node_types(nodes))
    if ranks is None and nodes is None:
        return cluster.node(0).gpus_per_node
    if ranks is None:
        return fewest
    if nodes is None:
        return min(ranks, fewest)
    return -(-ranks // nodes)


def _gpus(cluster: Cluster, nodes: int) -> int:
    return sum(cluster.node(node).gpus_per_node for node in range(nodes))
