"""What the links allow a communicator: the most that its bus bandwidth can be.

Bus bandwidth is what passes the busiest link of an ideal ring (nccl-tests, PERFORMANCE.md). So it
is at most what a GPU has within a node, and what the NICs of the members of a node have together
between nodes. Switches that add up (NVLS, CollNet) send less, and may be above it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from phantora_py.data import RunData
from sim_server.cluster.description import GpuLinks
from sim_server.errors import UsageError


def link_bytes_per_s(data: RunData, kind: str, members: Sequence[int]) -> float | None:
    """Of the members, which are GPUs. None where that is not known: nodes are not alike, or each
    pair has a way of its own.
    """
    try:
        settings = data.told_settings
    except UsageError:
        return None
    cluster, per_node = settings.cluster, settings.gpus_per_node
    if not cluster.is_uniform or kind == "all_to_all" or max(members) >= data.ranks:
        return None
    of_node = Counter(member // per_node for member in members)
    has_nvlink = cluster.gpu_links is GpuLinks.NVSWITCH
    nic = cluster.nic
    inside = cluster.nvlink.bandwidth_bytes_per_s if has_nvlink else nic.pcie_bandwidth_bytes_per_s
    if len(of_node) == 1:
        return float(inside)
    nics_of_gpu = nic.per_node / cluster.gpus_per_node
    nics = max(1.0, min(of_node.values()) * nics_of_gpu)
    between = min(nics, nic.per_node) * nic.bandwidth_bytes_per_s
    return float(between if max(of_node.values()) == 1 else min(inside, between))
