"""The simulated cluster: what it is made of, and where ranks sit in it."""

from sim_server.cluster.description import (
    Calibration,
    Cluster,
    Fabric,
    FabricKind,
    GpuChanges,
    GpuLinks,
    Host,
    Nic,
    NicException,
    NodeGroup,
    NodeType,
    NvLink,
    Routing,
)
from sim_server.cluster.fabric_checks import most_nodes
from sim_server.cluster.gpus import gpu_of_node
from sim_server.cluster.load import builtin_names, load_cluster
from sim_server.cluster.placement import GpuNumbers, Layout, place

__all__ = [
    "Calibration",
    "Cluster",
    "Fabric",
    "FabricKind",
    "GpuChanges",
    "GpuLinks",
    "GpuNumbers",
    "Host",
    "Layout",
    "Nic",
    "NicException",
    "NodeGroup",
    "NodeType",
    "NvLink",
    "Routing",
    "builtin_names",
    "gpu_of_node",
    "load_cluster",
    "most_nodes",
    "place",
]
