"""Ranks, nodes and GPUs of a run, from the cluster, the options and the launcher's options."""

from dataclasses import dataclass, replace

from phantora_py.launch.options import RunOptions
from phantora_py.launchers.launch import Launch
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


def lay_out(cluster: Cluster, options: RunOptions, launch: Launch | None) -> RunLayout:
    """Reconciles what the user said in up to three places.

    Raises: UsageError where they contradict each other or the cluster is too small.
    """
    nodes = (launch and launch.nodes) or options.nodes
    visible = gpus_per_node(cluster, options, nodes)
    if launch is None:
        ranks = options.ranks
        if ranks is None and options.nodes is None and options.gpus_per_node is None:
            ranks = 1  # What the command starts where there is no phantora.
        return RunLayout(place(cluster, ranks, options.nodes, options.gpus_per_node), visible)
    if launch.ranks is not None and launch.processes_per_node is None:
        if options.ranks not in (None, launch.ranks):
            raise UsageError(
                f"--ranks {options.ranks} contradicts {launch}, which starts {launch.ranks} ranks; "
                "leave --ranks out."
            )
        return RunLayout(place(cluster, launch.ranks, nodes, options.gpus_per_node), visible)
    if launch.own_ranks:
        given = (options.ranks, options.nodes, options.gpus_per_node)
        if any(one is not None for one in given):
            raise UsageError(
                "--gpus is for a program that starts its own ranks, on the GPUs of one node; leave "
                "--ranks, --nodes and --gpus-per-node out."
            )
        return RunLayout(place(cluster, None, 1, options.gpus), visible)
    processes = launch.processes_per_node or visible
    if processes > visible:
        raise UsageError(
            f"{launch} {launch.size_option} {processes} does not fit: a node of cluster "
            f"{cluster.name} has {visible} GPUs. Use more nodes or a cluster with larger nodes."
        )
    if None not in (launch.nodes, options.nodes) and launch.nodes != options.nodes:
        raise UsageError(
            f"--nodes {options.nodes} contradicts {launch} {launch.nodes_option} {launch.nodes}; "
            "give one."
        )
    if options.ranks is not None and nodes is not None and options.ranks != nodes * processes:
        raise UsageError(
            f"--ranks {options.ranks} contradicts the {launch} command, which starts "
            f"{nodes} x {processes} = {nodes * processes} ranks; leave --ranks out."
        )
    return RunLayout(place(cluster, options.ranks, nodes, processes), visible)


def gpus_for_launcher(options: RunOptions, launch: Launch | None) -> RunOptions:
    """--gpus N before a launcher, which says itself how many ranks it starts: nodes have N GPUs.

    Raises: UsageError if --gpus-per-node is there, too.
    """
    if options.gpus is None or launch is None or launch.own_ranks:
        return options
    if options.gpus_per_node is not None:
        raise UsageError(
            f"--gpus before {launch} says how many GPUs a node has, as --gpus-per-node does; give "
            "one of them."
        )
    return replace(options, gpus=None, gpus_per_node=options.gpus)


def gpus_per_node(cluster: Cluster, options: RunOptions, nodes: int | None) -> int:
    """How many GPUs a program finds on its node."""
    smallest = min(node.gpus_per_node for node in cluster.node_types(nodes))
    return options.gpus_per_node or options.gpus or smallest


def idle_gpus(layout: RunLayout) -> list[str]:
    """A note if several ranks leave GPUs of their nodes to nobody: some programs count them."""
    ranks, gpus = layout.ranks_per_node, layout.visible_gpus
    if layout.ranks == 1 or ranks == gpus:
        return []
    return [
        f"{ranks} of the {gpus} GPUs of a node have a rank; a program that counts GPUs finds "
        f"{gpus}, and {ranks} with --gpus-per-node {ranks}"
    ]


def unasked_variables(options: RunOptions, launch: Launch | None) -> list[str]:
    """A note if a command that starts no ranks runs as one rank, as if torchrun had started it."""
    if launch is not None or options.ranks or options.nodes or options.gpus_per_node:
        return []
    return [
        "the one rank has the variables that torchrun sets (RANK, WORLD_SIZE), so a program may "
        "wrap its model for several; with --gpus 1 it has none of them"
    ]
