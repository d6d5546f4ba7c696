"""What the collective library costs for the ranks of a communicator, by what their nodes are.

NCCL looks at all ranks' GPUs: its model takes the oldest architecture among them, and LL128 is off
where there are two. Source: minCompCap and maxCompCap in src/graph/tuning.cc of NCCL 2.20.3
(commit b6475625). A connection over PCIe in one node makes it that of all (typeIntra, which
src/init.cc takes the worst of).
"""

from __future__ import annotations

from sim_server.cluster import Calibration, Cluster
from sim_server.collectives.channels import CHANNEL_RATES, ChannelRates
from sim_server.collectives.group import Group
from sim_server.collectives.tuner import Machine
from sim_server.collectives.tuning import Protocol, Tuning, load_tuning
from sim_server.cpu import is_amd
from sim_server.network import Topology

# Names of costs; the first of those that a communicator meets is the one that NCCL goes by.
_SLOWEST_FIRST = ("pcie", "ampere", "hopper", "blackwell", "ideal")


class Library:
    """The costs on the nodes of one cluster."""

    def __init__(self, cluster: Cluster, nodes: int, calibration: Calibration) -> None:
        """Raises: UsageError when the cluster names an unknown tuning."""
        self._cluster = cluster
        self._names = [cluster.node(node).collectives for node in range(nodes)]
        self._tunings = {
            (name, network): load_tuning(name, network, calibration)
            for name in dict.fromkeys(self._names)
            for network in {cluster.node(node).nic.network for node in range(nodes)}
        }

    def tuning(self, group: Group) -> Tuning:
        """Costs of the operations of these ranks."""
        names = self._names_of(group)
        nics = [self._cluster.node(node).nic for node in group.node_numbers]
        slowest = min(nics, key=lambda one: one.bandwidth_bytes_per_s)
        tuning = self._tunings[names[0], slowest.network]
        if len(names) == 1:
            return tuning
        return {way: cost for way, cost in tuning.items() if way[1] is not Protocol.LL128}

    def rates(self, group: Group) -> ChannelRates:
        """What a channel of these ranks carries."""
        return CHANNEL_RATES[self._names_of(group)[0]]

    def machine(self, group: Group, topology: Topology) -> Machine | None:
        """What NCCL sees of the nodes of these ranks: of nodes that differ, the least of each.

        None on one node, and for the library that costs nothing. What it would find of GPUs on PCIe
        is taken to be as of Ampere's.
        """
        name = self._names_of(group)[0]
        if len(group.nodes) == 1 or name == "ideal":
            return None
        types = [self._cluster.node(node) for node in group.node_numbers]
        nics = [{topology.place(group.gpu[rank]).nic for rank in node} for node in group.nodes]
        has_nvlink = topology.has_nvlink(group.node_numbers)
        return Machine(
            "ampere" if name == "pcie" else name,
            min(one.nvlink.bandwidth_bytes_per_s for one in types) / 1e9 if has_nvlink else 0,
            min(map(len, nics)),
            min(
                min(one.nic.bandwidth_bytes_per_s, one.nic.pcie_bandwidth_bytes_per_s)
                for one in types
            )
            / 1e9,
            is_amd(types[0].host.cpu),
            group.size,
            len(group.nodes),
        )

    def _names_of(self, group: Group) -> list[str]:
        names = {self._names[node] for node in group.node_numbers}
        return sorted(names, key=_SLOWEST_FIRST.index)
