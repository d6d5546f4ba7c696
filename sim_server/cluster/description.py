"""What a cluster is made of: typed records, one docstring per field.

Each field names its TOML key and the parser of its value, so that this file is the whole schema;
`sim_server.cluster.settings` reads tables by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Annotated, Any

from sim_server.cluster.graph import GraphLink, check_nic, parse_links
from sim_server.cluster.settings import (
    PROTOCOLS,
    Setting,
    check_choice,
    check_count,
    check_counts,
    check_factor,
    check_flag,
    check_lower_name,
    check_name,
    check_non_negative,
    check_protocols,
    check_ratio,
)
from sim_server.cluster.units import (
    parse_bytes,
    parse_bytes_per_s,
    parse_khz,
    parse_ns,
    parse_watts,
)

# Up to this rate a NIC on InfiniBand is taken to be HDR's, above NDR's.
_HDR_BYTES_PER_S = 25_000_000_000


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
    """The processor of a node, and its PCIe, as GPUs without NVLink between them use it."""

    gpus_per_switch: Annotated[int, Setting("gpus_per_switch", check_count)] = 1
    """GPUs that share a PCIe switch and its slot on the host; 1 is no switch."""
    uplink_bytes_per_s: Annotated[int | None, Setting("uplink_bandwidth", parse_bytes_per_s)] = None
    """Between a PCIe switch and the host in one direction; None is that of a slot."""
    bandwidth_bytes_per_s: Annotated[int | None, Setting("bandwidth", parse_bytes_per_s)] = None
    """Of all traffic that goes through the host together; None is no limit."""
    cpu: Annotated[str | None, Setting("cpu", check_name)] = None
    """Profile of the processor (see `sim_server.cpu`), or its TOML file; None is genoa."""
    cores: Annotated[int | None, Setting("cores", check_count)] = None
    """Of all processors of the node, which workers of data loaders share; None is no limit."""


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
    protocols: Annotated[tuple[str, ...], Setting("protocols", check_protocols)] = PROTOCOLS
    """NCCL's, that it may use between nodes: LL128 needs a NIC on a PCIe switch with its GPUs
    (A100), and EFA of AWS's p4 takes Simple alone."""

    @property
    def network(self) -> str:
        """Name of the costs between nodes: each generation of InfiniBand has its own."""
        if self.transport != "infiniband":
            return self.transport
        is_hdr = self.bandwidth_bytes_per_s <= _HDR_BYTES_PER_S
        return f"{self.transport}-{'hdr' if is_hdr else 'ndr'}"


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
    convergence_ns: Annotated[int, Setting("convergence", parse_ns)] = 0
    """Time constant of congestion control; 0: rates are fair at once."""
    sharp: Annotated[bool, Setting("sharp", check_flag)] = False
    """Whether the switches can add up (NVIDIA SHARP, for NCCL's CollNet)."""


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
class GpuChanges:
    """How a GPU differs from a built-in one: the table `[gpu]` of a file."""

    base: Annotated[str | None, Setting("base", check_lower_name)] = None
    """The built-in GPU; by default that of the cluster's base. None: the GPU is built in."""
    device_name: Annotated[str | None, Setting("device_name", check_name)] = None
    """What programs and timing caches know it by; by default the base's name and its own."""
    memory_bytes: Annotated[int | None, Setting("memory", parse_bytes)] = None
    """What CUDA says it has."""
    bandwidth_bytes_per_s: Annotated[int | None, Setting("bandwidth", parse_bytes_per_s)] = None
    """Of its memory, as data sheets say it."""
    sm_clock_khz: Annotated[int | None, Setting("sm_clock", parse_khz)] = None
    """Highest clock of its multiprocessors."""
    power_limit_w: Annotated[int | None, Setting("power_limit", parse_watts)] = None
    """What the board may draw."""


@dataclass(frozen=True, kw_only=True)
class NodeType:
    """What a node is made of."""

    gpu: Annotated[str, Setting("gpu", check_lower_name)]
    """Name of a built-in GPU, in capitals too; or a table, whose `name` is a new one."""
    gpu_changes: GpuChanges = GpuChanges()
    """Of a GPU that is not built in."""
    gpus_per_node: Annotated[int, Setting("gpus_per_node", check_count)]
    """GPUs of a node."""
    collectives: Annotated[str, Setting("collectives", check_name)]
    """Name of the collective library's tuning (see `sim_server.collectives.tuning`)."""
    nvlink: NvLink
    """Links inside a node."""
    nic: Nic
    """Links out of a node."""
    gpu_links: Annotated[GpuLinks, Setting("gpu_links", check_choice(GpuLinks))] = GpuLinks.NVSWITCH
    """How GPUs of a node reach each other."""
    host: Host = Host()
    """PCIe of a node."""


@dataclass(frozen=True, kw_only=True)
class NodeGroup(NodeType):
    """Nodes of one type in a mixed cluster, after those of the groups before it.

    In a file a group says what differs from the cluster, or from another one that is its `base`.
    """

    nodes: Annotated[int, Setting("nodes", check_count)]
    """How many."""


@dataclass(frozen=True)
class NicException:
    """One NIC that is not like the others of its node."""

    nic: Annotated[str, Setting("nic", check_nic)]
    """As "nic N.I": NIC I of node N."""
    bandwidth_bytes_per_s: Annotated[int, Setting("bandwidth", parse_bytes_per_s)]
    """Of this NIC in one direction."""


@dataclass(frozen=True, kw_only=True)
class Cluster(NodeType):
    """A cluster of nodes that are all of its own type, unless it has groups."""

    name: Annotated[str, Setting("name", check_name)]
    """As the user reads it in reports."""
    fabric: Fabric
    """Switches between nodes; their links are those of a fabric for the cluster's own type."""
    nodes: Annotated[int | None, Setting("nodes", check_count)] = None
    """How many nodes there are; None is as many as asked for. Of groups: the sum."""
    node_groups: tuple[NodeGroup, ...] = ()
    """The types of the nodes where they are not all alike."""
    nic_exceptions: tuple[NicException, ...] = ()
    """NICs of other capacity."""
    sm_contention: Annotated[bool, Setting("sm_contention", check_flag)] = True
    """Whether NCCL's kernels take multiprocessors from the kernels beside them."""
    calibration: Calibration = Calibration()
    """What this cluster's own measurements say about the costs."""

    @property
    def is_uniform(self) -> bool:
        """Whether all nodes are alike, with all that is in them."""
        return not self.node_groups and not self.nic_exceptions

    def node(self, number: int) -> NodeType:
        """What a node is made of."""
        last = -1
        for group in self.node_groups:
            last += group.nodes
            if number <= last:
                return group
        return self.node_groups[-1] if self.node_groups else self

    def first_nic(self, node: int) -> int:
        """Number of a node's first NIC when those of the whole cluster are counted through."""
        count, before = 0, node
        for group in self.node_groups:
            count += min(before, group.nodes) * group.nic.per_node
            before -= min(before, group.nodes)
        return count + before * self.nic.per_node

    def node_types(self, nodes: int | None = None) -> list[NodeType]:
        """Those among the first `nodes` nodes, or among all."""
        if not self.node_groups:
            return [self]
        if nodes is None:
            return list(self.node_groups)
        return list(dict.fromkeys(self.node(node) for node in range(nodes)))

    def to_dict(self) -> dict[str, Any]:
        """Plain values under the names of the fields, in base units, for JSON."""
        groups = [asdict(one) | {"gpu_links": one.gpu_links.value} for one in self.node_groups]
        return asdict(self) | {
            "gpu_links": self.gpu_links.value,
            "fabric": asdict(self.fabric)
            | {"routing": self.fabric.routing.value, "kind": self.fabric.kind.value},
            "node_groups": groups,
        }

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Cluster:
        """Inverse of `to_dict`."""
        fabric = {**values["fabric"], "routing": Routing(values["fabric"]["routing"])}
        fabric["kind"] = FabricKind(fabric.get("kind", "leaf-spine"))
        fabric["shape"] = tuple(fabric.get("shape", ()))
        fabric["links"] = tuple(GraphLink(**link) for link in fabric.get("links", ()))
        groups = values.get("node_groups", ())
        exceptions = values.get("nic_exceptions", ())
        parts = {
            "fabric": Fabric(**fabric),
            "node_groups": tuple(NodeGroup(**_node_parts(group)) for group in groups),
            "nic_exceptions": tuple(NicException(**one) for one in exceptions),
            "calibration": Calibration(**values.get("calibration", {})),
        }
        return Cluster(**{**_node_parts(values), **parts})


def _protocols(nic: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(nic.get("protocols", PROTOCOLS))


def _node_parts(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a type of nodes, its tables as records."""
    return {
        **values,
        "gpu_changes": GpuChanges(**values.get("gpu_changes", {})),
        "nvlink": NvLink(**values["nvlink"]),
        "nic": Nic(**{**values["nic"], "protocols": _protocols(values["nic"])}),
        "gpu_links": GpuLinks(values.get("gpu_links", "nvswitch")),
        "host": Host(**values.get("host", {})),
    }
