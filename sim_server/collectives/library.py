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
from sim_server.collectives.tuning import Protocol, Tuning, load_tuning

# Names of costs; the first of those that a communicator meets is the one that NCCL goes by.
_SLOWEST_FIRST = ("pcie", "ampere", "hopper", "blackwell", "ideal")


class Library:
    """The costs on the nodes of one cluster."""

    def __init__(self, cluster: Cluster, nodes: int, calibration: Calibration) -> None:
        """Raises: UsageError when the cluster names an unknown tuning."""
        self._names = [cluster.node(node).collectives for node in range(nodes)]
        self._tunings = {
            name: load_tuning(name, cluster.nic.transport, calibration)
            for name in dict.fromkeys(self._names)
        }

    def tuning(self, group: Group) -> Tuning:
        """Costs of the operations of these ranks."""
        names = self._names_of(group)
        tuning = self._tunings[names[0]]
        if len(names) == 1:
            return tuning
        return {way: cost for way, cost in tuning.items() if way[1] is not Protocol.LL128}

    def rates(self, group: Group) -> ChannelRates:
        """What a channel of these ranks carries."""
        return CHANNEL_RATES[self._names_of(group)[0]]

    def _names_of(self, group: Group) -> list[str]:
        names = {self._names[node] for node in group.node_numbers}
        return sorted(names, key=_SLOWEST_FIRST.index)
