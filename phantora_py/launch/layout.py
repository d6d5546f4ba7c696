"""Ranks, nodes and GPUs of a run, from the cluster, the options and torchrun's options."""

from dataclasses import dataclass

from phantora_py.launch.options import RunOptions
from phantora_py.launch.torchrun import TorchrunCommand
from sim_server.cluster import Cluster, Layout, place
from sim_server.errors import UsageError


@dataclass(frozen=True)
class RunLayout:
    """Where ranks sit, and how many GPUs a rank finds on its node, used or not."""

    layout: Layout
    visible_gpus: int

    @property
    def ranks(self) -> int:
        return self.layout.ranks

    @property
    def nodes(self) -> int:
        return self.layout.nodes

    @property
    def ranks_per_node(self) -> int:
        return self.layout.gpus_per_node

    def node(self, rank: int) -> int:
        return rank // self.ranks_per_node

    def local_rank(self, rank: int) -> int:
        return rank % self.ranks_per_node


def lay_out(cluster: Cluster, options: RunOptions, torchrun: TorchrunCommand | None) -> RunLayout:
    """Reconciles what the user said in up to three places.

    Raises: UsageError where they contradict each other or the cluster is too small.
    """
    nodes = (torchrun and torchrun.nodes) or options.nodes
    smallest = min(node.gpus_per_node for node in cluster.node_types(nodes))
    visible = options.gpus_per_node or smallest
    if torchrun is None:
        ranks = options.ranks
        if ranks is None and options.nodes is None and options.gpus_per_node is None:
            ranks = 1  # What the command starts where there is no phantora.
        return RunLayout(place(cluster, ranks, options.nodes, options.gpus_per_node), visible)
    processes = _processes_per_node(torchrun.processes_per_node, visible)
    if processes > visible:
        raise UsageError(
            f"torchrun --nproc-per-node {processes} does not fit: a node of cluster {cluster.name} "
            f"has {visible} GPUs. Use more nodes or a cluster with larger nodes."
        )
    if None not in (torchrun.nodes, options.nodes) and torchrun.nodes != options.nodes:
        raise UsageError(
            f"--nodes {options.nodes} contradicts torchrun --nnodes {torchrun.nodes}; give one."
        )
    if options.ranks is not None and nodes is not None and options.ranks != nodes * processes:
        raise UsageError(
            f"--ranks {options.ranks} contradicts the torchrun command, which starts "
            f"{nodes} x {processes} = {nodes * processes} ranks; leave --ranks out."
        )
    return RunLayout(place(cluster, options.ranks, nodes, processes), visible)


def _processes_per_node(text: str, visible_gpus: int) -> int:
    if text in ("gpu", "auto"):
        return visible_gpus
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(
            f"torchrun --nproc-per-node {text} cannot be simulated: it takes a number, gpu or auto."
        )
    return int(text)
