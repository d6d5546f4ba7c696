"""Clusters with round numbers, for cases that can be computed by hand."""

from __future__ import annotations

from sim_server.cluster import Cluster, Fabric, Nic, NvLink, Routing

# 10 bytes per ns.
LINK_BYTES_PER_S = 10 * 10**9


def round_cluster(
    latency_ns: int = 0,
    gpus_per_node: int = 8,
    nics_per_node: int = 8,
    oversubscription: float = 1.0,
) -> Cluster:
    """Every link carries 10 bytes per ns and has the same latency; the library costs nothing."""
    return Cluster(
        name="round",
        gpu="h100",
        gpus_per_node=gpus_per_node,
        collectives="ideal",
        nvlink=NvLink(LINK_BYTES_PER_S, latency_ns),
        nic=Nic(nics_per_node, LINK_BYTES_PER_S, latency_ns, LINK_BYTES_PER_S, latency_ns),
        fabric=Fabric(4 * nics_per_node, 4, oversubscription, Routing.ADAPTIVE, 0, latency_ns),
    )
