"""The graph of a cluster: directed links between GPUs, NVSwitches, NICs, leaves and spines, and
routes.

A link is known by its index in `Topology.links`; a route is a tuple of such indexes. Under adaptive
routing the spines are one vertex, "core", and a leaf's uplinks are one link of their summed
capacity. Without peer-to-peer access GPUs of a node meet in "host", the memory of their node, over
PCIe.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from sim_server.cluster import Cluster, FabricKind, GpuLinks, Host, Routing
from sim_server.errors import UsageError
from sim_server.network.fabrics import connections, leaf_numbers
from sim_server.network.routes import Routes, UnreachableError
from sim_server.network.routing import ecmp_spine, single_path_spine
from sim_server.network.settling import Settling


class Gpu(NamedTuple):
    """Where a rank sits."""

    node: int
    number: int
    """In the node."""


class Place(NamedTuple):
    """The vertices above a GPU, by name."""

    gpu: str
    nic: str
    inside: str
    """What joins the GPUs of its node."""
    leaf: str
    up: tuple[int, ...]
    """Links from the GPU to the leaf; none where the fabric is no leaves and spines."""
    down: tuple[int, ...]
    """Links from there to the GPU."""
    to_core: tuple[int, ...]
    """Links from the GPU to the core; none where spines are several vertices or there are none."""
    from_core: tuple[int, ...]
    """Links from there to the GPU."""


class Link(NamedTuple):
    """One direction of a connection."""

    source: str
    """Name of the vertex that it leaves, as "gpu 0.3" (node, then number in the node)."""
    target: str
    """Name of the vertex that it enters."""
    capacity_bytes_per_s: int
    latency_ns: int


class Topology:
    """The links of the first `nodes` nodes of a cluster, and the routes between their GPUs."""

    def __init__(
        self,
        cluster: Cluster,
        nodes: int,
        nics: Callable[[int], Sequence[int]] = range,
        *,
        peer_to_peer: bool = True,
        pxn: bool = True,
    ) -> None:
        """`nics` are those in use of a node that has so many; `pxn` is NCCL's, over NVLink to
        the GPU of the right rail.

        A GPU whose own is not among them uses the nearest by number.
        """
        self._types = [cluster.node(node) for node in range(nodes)]
        self._nics = [nics(one.nic.per_node) for one in self._types]
        self._peer_to_peer = peer_to_peer
        self.links: list[Link] = []
        self._cluster = cluster
        self._by_ends: dict[tuple[str, str], int] = {}
        self._paths: dict[tuple[Gpu, Gpu], tuple[int, ...]] = {}
        self._places: dict[Gpu, Place] = {}
        self.pxn = pxn
        """Whether bytes for another rail may go over NVLink to its GPU."""
        self._leaf = leaf_numbers(cluster, nodes)
        for node in range(nodes):
            self._add_node(node)
        unused = {
            f"nic {node}.{nic}"
            for node, one in enumerate(self._types)
            for nic in set(range(one.nic.per_node)) - set(self._nics[node])
        }
        self._above: dict[str, str] = {}
        neighbours: dict[str, list[str]] = defaultdict(list)
        for one in connections(cluster, nodes):
            if one.one not in unused and one.other not in unused:
                self._connect(*one)
                neighbours[one.one].append(one.other)
                neighbours[one.other].append(one.one)
                for nic, switch in ((one.one, one.other), (one.other, one.one)):
                    if nic.startswith("nic "):
                        self._above.setdefault(nic, switch)
        self._routes = Routes(neighbours, cluster.fabric.routing, cluster.fabric.seed)
        self.is_symmetric = self._find_symmetry()
        """Whether a route depends on no more than the places of its ends."""

    def has_nvlink(self, nodes: Iterable[int]) -> bool:
        """Whether GPUs of each of these nodes reach each other over it."""
        return all(self._inside(node) == "nvswitch" for node in nodes)

    @property
    def has_rails(self) -> bool:
        """Whether NICs of equal number are at one switch, and others of a node are not."""
        return self._cluster.fabric.kind in (FabricKind.RAIL_OPTIMISED, FabricKind.RAIL_ONLY)

    @property
    def has_sharp(self) -> bool:
        """Whether the switches between nodes can add up."""
        return self._cluster.fabric.sharp

    def allows(self, protocol: str) -> bool:
        """Whether NCCL may use a protocol between nodes."""
        return protocol in self._cluster.nic.protocols

    @property
    def settling(self) -> Settling | None:
        """How rates of flows between nodes settle, if they take time for it."""
        time_ns = self._cluster.fabric.convergence_ns
        if time_ns == 0:
            return None
        ends = (f"{link.source} {link.target}".split() for link in self.links)
        return Settling(
            time_ns / 1e9, frozenset(i for i, names in enumerate(ends) if "nic" in names)
        )

    def nics_of(self, node: int) -> int:
        """How many NICs of a node are in use."""
        return len(self._nics[node])

    def place(self, gpu: Gpu) -> Place:
        """Where a GPU sits."""
        place = self._places.get(gpu)
        if place is None:
            name, nic, leaf = _name(gpu), self._nic(gpu), f"leaf {self._leaf[gpu.node]}"
            inside = f"{self._inside(gpu.node)} {gpu.node}"
            links = self._by_ends
            none: tuple[int, ...] = ()
            up = down = to_core = from_core = none
            if self._cluster.fabric.kind is FabricKind.LEAF_SPINE:
                up = (links[name, nic], links[nic, leaf])
                down = (links[leaf, nic], links[nic, name])
                if (leaf, "core") in links:
                    to_core = (*up, links[leaf, "core"])
                    from_core = (links["core", leaf], *down)
            place = Place(name, nic, inside, leaf, up, down, to_core, from_core)
            self._places[gpu] = place
        return place

    def pattern(self, gpus: Sequence[Gpu]) -> tuple[Hashable, ...]:
        """Equal for GPUs that a symmetry maps to each other, one by one: so are their routes.

        Where the network has none that is known (`is_symmetric`), only for the same ones.
        """
        if not self.is_symmetric:
            return tuple(gpus)
        numbers: dict[str, int] = {}
        pattern = []
        for gpu in gpus:
            for name in self.place(gpu)[1:4]:
                pattern.append(numbers.setdefault(name, len(numbers)))
        return tuple(pattern)

    def path(self, source: Gpu, destination: Gpu) -> tuple[int, ...]:
        """Links from one GPU to another."""
        key = (source, destination)
        path = self._paths.get(key)
        if path is None:
            path = self._paths[key] = self.find_path(source, destination)
        return path

    def find_path(self, source: Gpu, destination: Gpu) -> tuple[int, ...]:
        """As `path`, for routes that are not asked for again."""
        one, other = self.place(source), self.place(destination)
        if one.inside == other.inside:
            return self._along(one.gpu, *self._inside_path(source, destination), other.gpu)
        if not one.up:
            return self._through_fabric(source, destination)
        if one.leaf == other.leaf:
            return one.up + other.down
        if one.to_core:
            return one.to_core + other.from_core
        spine = self._spine(source, destination)
        return one.up + self._along(one.leaf, spine, other.leaf) + other.down

    def to_switch(self, gpu: Gpu) -> tuple[int, ...]:
        """The link from a GPU to the NVSwitch of its node."""
        return self._along(f"gpu {gpu.node}.{gpu.number}", f"nvswitch {gpu.node}")

    def from_switch(self, gpu: Gpu) -> tuple[int, ...]:
        """The link to a GPU from the NVSwitch of its node."""
        return self._along(f"nvswitch {gpu.node}", f"gpu {gpu.node}.{gpu.number}")

    def to_fabric(self, gpu: Gpu) -> tuple[int, ...]:
        """Links from a GPU to the switch above its NIC."""
        nic = self._nic(gpu)
        return self._along(_name(gpu), nic, self._above[nic])

    def from_fabric(self, gpu: Gpu) -> tuple[int, ...]:
        """Links to a GPU from the switch above its NIC."""
        nic = self._nic(gpu)
        return self._along(self._above[nic], nic, _name(gpu))

    def latency_ns(self, path: tuple[int, ...]) -> int:
        """Latency of a route: the sum over its links."""
        return sum(self.links[link].latency_ns for link in path)

    def _through_fabric(self, source: Gpu, destination: Gpu) -> tuple[int, ...]:
        """Between nodes, on the rail of the destination where there are rails and PXN."""
        sender, before = source, [_name(source)]
        if self.has_rails and self.pxn and self.has_nvlink([source.node]):
            sender = self._on_rail(source, self._nic_number(destination))
            if sender != source:
                before += [*self._inside_path(source, sender), _name(sender)]
        try:
            between = self._routes.between(
                self._nic(sender), self._nic(destination), self._nic_ids(sender, destination)
            )
        except UnreachableError as error:
            raise UsageError(
                f"{_name(source)} cannot reach {_name(destination)}: {self._nic(sender)} and "
                f"{self._nic(destination)} are on different rails that no switch joins, and "
                "PXN over NVLink is not there or switched off (NCCL_PXN_DISABLE, NCCL_P2P_DISABLE)"
            ) from error
        return self._along(*before, *between, _name(destination))

    def _on_rail(self, gpu: Gpu, nic: int) -> Gpu:
        """The GPU of the same node that uses a NIC; the same GPU if it does."""
        if self._nic_number(gpu) == nic:
            return gpu
        gpus = self._types[gpu.node].gpus_per_node
        others = (Gpu(gpu.node, number) for number in range(gpus))
        return next((one for one in others if self._nic_number(one) == nic), gpu)

    def _nic_ids(self, source: Gpu, destination: Gpu) -> tuple[int, int]:
        """Numbers of their NICs in the cluster."""
        out, in_ = (
            self._cluster.first_nic(gpu.node) + self._nic_number(gpu)
            for gpu in (source, destination)
        )
        return out, in_

    def _inside(self, node: int) -> str:
        """What joins the GPUs of a node."""
        over_nvlink = self._peer_to_peer and self._types[node].gpu_links is GpuLinks.NVSWITCH
        return "nvswitch" if over_nvlink else "host"

    def _find_symmetry(self) -> bool:
        if not self._cluster.is_uniform:
            return False
        if self._inside(0) == "host" and self._cluster.host != Host():
            return False
        if self._cluster.fabric.kind is not FabricKind.LEAF_SPINE:
            return False
        return self._leaf[-1] == 0 or self._cluster.fabric.routing is Routing.ADAPTIVE

    def _inside_path(self, source: Gpu, destination: Gpu) -> list[str]:
        """Vertices between two GPUs of a node."""
        node = source.node
        if self._inside(node) == "nvswitch":
            return [f"nvswitch {node}"]
        host = [f"host {node}"]
        if self._types[node].host.bandwidth_bytes_per_s is not None:
            host.append(f"memory {node}")
        if self._types[node].host.gpus_per_switch == 1:
            return host
        one, other = self._pcie_switch(source), self._pcie_switch(destination)
        return [one] if one == other else [one, *host, other]

    def _pcie_switch(self, gpu: Gpu) -> str:
        return f"pcie {gpu.node}.{gpu.number // self._types[gpu.node].host.gpus_per_switch}"

    def _along(self, *vertices: str) -> tuple[int, ...]:
        return tuple(map(self._by_ends.__getitem__, pairwise(vertices)))

    def _nic(self, gpu: Gpu) -> str:
        return f"nic {gpu.node}.{self._nic_number(gpu)}"

    def _nic_number(self, gpu: Gpu) -> int:
        """Number in the node of the NIC that a GPU uses."""
        node = self._types[gpu.node]
        own = gpu.number * node.nic.per_node // node.gpus_per_node
        if own in self._nics[gpu.node]:
            return own
        return min(self._nics[gpu.node], key=lambda nic: abs(nic - own))

    def _spine(self, source: Gpu, destination: Gpu) -> str:
        fabric = self._cluster.fabric
        out_nic, in_nic = self._nic_ids(source, destination)
        if fabric.routing is Routing.SINGLE:
            return f"spine {single_path_spine(in_nic, fabric.spines)}"
        return f"spine {ecmp_spine(fabric.seed, out_nic, in_nic, fabric.spines)}"

    def _add_node(self, node: int) -> None:
        made_of = self._types[node]
        nvlink, nic = made_of.nvlink, made_of.nic
        pcie = (nic.pcie_bandwidth_bytes_per_s, nic.pcie_latency_ns)
        for index in range(made_of.gpus_per_node):
            gpu = f"gpu {node}.{index}"
            if made_of.gpu_links is GpuLinks.NVSWITCH:
                nvswitch = f"nvswitch {node}"
                self._connect(gpu, nvswitch, nvlink.bandwidth_bytes_per_s, nvlink.latency_ns)
            self._connect(gpu, self._nic(Gpu(node, index)), *pcie)
        if self._inside(node) == "host":
            self._add_host(node)

    def _add_host(self, node: int) -> None:
        """PCIe between the GPUs of a node. What it is limited by in all is one link, "memory"."""
        made_of = self._types[node]
        nic, host = made_of.nic, made_of.host
        pcie = (nic.pcie_bandwidth_bytes_per_s, nic.pcie_latency_ns)
        entry = leave = f"host {node}"
        if host.bandwidth_bytes_per_s is not None:
            leave = f"memory {node}"
            self._connect(entry, leave, host.bandwidth_bytes_per_s, 0)
        gpus = [Gpu(node, index) for index in range(made_of.gpus_per_node)]
        ends = [f"gpu {node}.{gpu.number}" for gpu in gpus]
        slot = pcie
        if host.gpus_per_switch > 1:
            slot = (host.uplink_bytes_per_s or nic.pcie_bandwidth_bytes_per_s, nic.pcie_latency_ns)
            switches = [self._pcie_switch(gpu) for gpu in gpus]
            for gpu_name, switch in zip(ends, switches, strict=True):
                self._connect(gpu_name, switch, *pcie)
            ends = list(dict.fromkeys(switches))
        for end in ends:
            self._link(end, entry, *slot)
            self._link(leave, end, *slot)

    def _connect(self, one: str, other: str, capacity_bytes_per_s: int, latency_ns: int) -> None:
        for ends in ((one, other), (other, one)):
            self._link(*ends, capacity_bytes_per_s, latency_ns)

    def _link(self, source: str, target: str, capacity_bytes_per_s: int, latency_ns: int) -> None:
        self._by_ends[source, target] = len(self.links)
        self.links.append(Link(source, target, capacity_bytes_per_s, latency_ns))


def _name(gpu: Gpu) -> str:
    return f"gpu {gpu.node}.{gpu.number}"
