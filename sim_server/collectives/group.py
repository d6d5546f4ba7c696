"""The ranks of an operation and where they sit."""

from __future__ import annotations

from collections.abc import Sequence

from sim_server.network import Gpu


class Group:
    """Ranks in communicator order, their GPUs, and the same ranks by node."""

    def __init__(self, ranks: Sequence[int], gpus: Sequence[Gpu]) -> None:
        self.ranks = tuple(ranks)
        self.gpu = dict(zip(ranks, gpus, strict=True))
        nodes: dict[int, list[int]] = {}
        for rank, gpu in self.gpu.items():
            nodes.setdefault(gpu.node, []).append(rank)
        self.node_numbers = tuple(nodes)
        """In the order in which the communicator first meets them."""
        self.nodes = list(nodes.values())
        """Ranks of each node, in the same order."""
        self.rails = min(len(node) for node in self.nodes)
        """Ranks of a node that can each keep a NIC of their own busy."""

    @property
    def size(self) -> int:
        """How many ranks."""
        return len(self.ranks)

    def crosses(self, source: int, destination: int) -> bool:
        """Whether two ranks sit on different nodes."""
        return self.gpu[source].node != self.gpu[destination].node
