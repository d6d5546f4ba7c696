"""What a cluster is made of: typed records, one docstring per field.

Each field names its TOML key and the parser of its value, so that this file is the whole schema;
`sim_server.cluster.settings` reads tables by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Annotated, Any

from sim_server.cluster.graph import GraphLink, parse_links
from sim_server.cluster.settings import (
    Setting,
    check_choice,
    check_count,
    check_counts,
    check_factor,
    check_flag,
    check_name,
    check_non_negative,
    check_ratio,
)
from sim_server.cluster.units import parse_bytes_per_s, parse_ns


class Routing(str, Enum):
    """How a flow between leaf switches chooses its spine."""

    ADAPTIVE = "adaptive"
    """Spread over all spines at once: the fluid limit of per-packet adaptive routing."""
    ECMP = "ecmp"
    """One spine per flow, by the hash of `sim_server.network.routing`."""
    SINGLE = "single"
    """One spine per destination NIC: its number modulo the spines."""


class FabricKind(str, Enum):
    """How switches join the NICs (see `sim_server.network.fabrics`)."""

    LEAF_SPINE = "leaf-spine"
    RAIL_OPTIMISED = "rail-optimised"
    RAIL_ONLY = "rail-only"
    FAT_TREE = "fat-tree"
    DRAGONFLY = "dragonfly"
    TORUS = "torus"
    GRAPH = "graph"


@dataclass(frozen=True)
class NvLink:
    """The links between the GPUs of a node and its NVSwitch."""

    bandwidth_bytes_per_s: Annotated[int, Setting("bandwidth", parse_bytes_per_s)]
    """Of all NVLinks of one GPU together, in one direction."""
    latency_ns: Annotated[int, Setting("latency", parse_ns)]
    """From a GPU to the switch, or from the switch to a GPU."""


class GpuLinks(str, Enum):
    """How GPUs of a node reach each other."""

    NVSWITCH = "nvswitch"
    """Each over its NVLinks and one switch."""
    PCIE = "pcie"
    """Each over its PCIe slot, PCIe switches and the host."""


@dataclass(frozen=True)
class Host:
    """PCIe of a node, as GPUs without NVLink between them use it."""

    gpus_per_switch: Annotated[int, Setting("gpus_per_switch", check_count)] = 1
    """GPUs that share a PCIe switch and its slot on the host; 1 is no switch."""
    uplink_bytes_per_s: Annotated[int | None, Setting("uplink_bandwidth", parse_bytes_per_s)] = None
    """Between a PCIe switch and the host in one direction; None is that of a slot."""
    bandwidth_bytes_per_s: Annotated[int | None, Setting("bandwidth", parse_bytes_per_s)] = None
    """Of all traffic that goes through the host together; None is no limit."""


@dataclass(frozen=True)
class Nic:
    """The network interfaces of a node."""

    per_node: Annotated[int, Setting("per_node", check_count)]
    """How many; divides the GPUs of a node, which use them in equal blocks."""
    bandwidth_bytes_per_s: Annotated[int, Setting("bandwidth", parse_bytes_per_s)]
    """Of one NIC in one direction."""
    latency_ns: Annotated[int, Setting("latency", parse_ns)]
    """From a NIC to its leaf switch, or back, NIC processing included."""
    pcie_bandwidth_bytes_per_s: Annotated[int, Setting("pcie_bandwidth", parse_bytes_per_s)]
    """Between one GPU and its NIC in one direction."""
    pcie_latency_ns: Annotated[int, Setting("pcie_latency", parse_ns)]
    """Between a GPU and its NIC."""
    transport: Annotated[str, Setting("transport", check_name)] = "infiniband"
    """Name of the costs of operations between nodes (see `sim_server.collectives.tuning`)."""


@dataclass(frozen=True)
class Fabric:
    """The switches between nodes; by default one level of leaves, one of spines."""

    leaf_downlinks: Annotated[int, Setting("leaf_downlinks", check_count)]
    """NICs on one leaf; a multiple of the NICs of a node unless leaves are rails."""
    spines: Annotated[int, Setting("spines", check_count)]
    """Spine switches; every leaf has one link to each."""
    oversubscription: Annotated[float, Setting("oversubscription", check_ratio)]
    """Capacity of a leaf's downlinks over that of its uplinks; 1 is non-blocking."""
    routing: Annotated[Routing, Setting("routing", check_choice(Routing))]
    """How a flow chooses its spine."""
    seed: Annotated[int, Setting("seed", check_non_negative)]
    """Enters the ECMP hash."""
    latency_ns: Annotated[int, Setting("latency", parse_ns)]
    """Between two switches, switching included."""
    kind: Annotated[FabricKind, Setting("topology", check_choice(FabricKind))] = (
        FabricKind.LEAF_SPINE
    )
    """How switches join the NICs."""
    link_bytes_per_s: Annotated[int | None, Setting("link_bandwidth", parse_bytes_per_s)] = None
    """Between two switches of a fat-tree, dragonfly or torus, one direction; None: as of a NIC."""
    ports: Annotated[int | None, Setting("ports", check_count)] = None
    """Of a switch of a fat-tree, k."""
    groups: Annotated[int | None, Setting("groups", check_count)] = None
    """Of a dragonfly."""
    routers: Annotated[int | None, Setting("routers", check_count)] = None
    """In a group of a dragonfly."""
    router_nics: Annotated[int | None, Setting("router_nics", check_count)] = None
    """At a router of a dragonfly."""
    shape: Annotated[tuple[int, ...], Setting("shape", check_counts)] = ()
    """Nodes along each dimension of a torus."""
    links: Annotated[tuple[GraphLink, ...], Setting("links", parse_links)] = ()
    """Of a free-form graph."""


@dataclass(frozen=True)
class Calibration:
    """Factors on the costs of collectives; 1 where nobody measured. `phantora calibrate` writes
    them."""

    base_latency: Annotated[float, Setting("base_latency", check_factor)] = 1.0
    """On what an operation or a message costs before its first step."""
    gpu_latency: Annotated[float, Setting("gpu_latency", check_factor)] = 1.0
    """On a step inside a node."""
    gpu_efficiency: Annotated[float, Setting("gpu_efficiency", check_factor)] = 1.0
    """On the part of the capacity inside a node that carries payload."""
    network_latency: Annotated[float, Setting("network_latency", check_factor)] = 1.0
    """On what operations and steps between nodes cost in addition."""
    network_efficiency: Annotated[float, Setting("network_efficiency", check_factor)] = 1.0
    """On the part of the network's capacity that carries payload."""


@dataclass(frozen=True)
class Cluster:
    """A cluster of equal nodes, each with its GPUs on one NVSwitch."""

    name: Annotated[str, Setting("name", check_name)]
    """As the user reads it in reports."""
    gpu: Annotated[str, Setting("gpu", check_name)]
    """Name of the GPU profile."""
    gpus_per_node: Annotated[int, Setting("gpus_per_node", check_count)]
    """GPUs of a node."""
    collectives: Annotated[str, Setting("collectives", check_name)]
    """Name of the collective library's tuning (see `sim_server.collectives.tuning`)."""
    nvlink: NvLink
    """Links inside a node."""
    nic: Nic
    """Links out of a node."""
    fabric: Fabric
    """Switches between nodes."""
    nodes: Annotated[int | None, Setting("nodes", check_count)] = None
    """How many nodes there are; None is as many as asked for."""
    gpu_links: Annotated[GpuLinks, Setting("gpu_links", check_choice(GpuLinks))] = GpuLinks.NVSWITCH
    """How GPUs of a node reach each other."""
    host: Host = Host()
    """PCIe of a node."""
    sm_contention: Annotated[bool, Setting("sm_contention", check_flag)] = True
    """Whether NCCL's kernels take multiprocessors from the kernels beside them."""
    calibration: Calibration = Calibration()
    """What this cluster's own measurements say about the costs."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values under the names of the fields, in base units, for JSON."""
        return asdict(self) | {
            "gpu_links": self.gpu_links.value,
            "fabric": asdict(self.fabric)
            | {"routing": self.fabric.routing.value, "kind": self.fabric.kind.value},
        }

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Cluster:
        """Inverse of `to_dict`."""
        fabric = {**values["fabric"], "routing": Routing(values["fabric"]["routing"])}
        fabric["kind"] = FabricKind(fabric.get("kind", "leaf-spine"))
        fabric["shape"] = tuple(fabric.get("shape", ()))
        fabric["links"] = tuple(GraphLink(**link) for link in fabric.get("links", ()))
        parts = {
            "nvlink": NvLink(**values["nvlink"]),
            "nic": Nic(**values["nic"]),
            "fabric": Fabric(**fabric),
            "gpu_links": GpuLinks(values.get("gpu_links", "nvswitch")),
            "host": Host(**values.get("host", {})),
            "calibration": Calibration(**values.get("calibration", {})),
        }
        return Cluster(**{**values, **parts})
