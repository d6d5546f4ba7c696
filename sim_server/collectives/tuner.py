"""NCCL's own estimate of an operation between nodes, by which it chooses algorithm and protocol.

It is latency + size / bandwidth, made of tables and of the paths that NCCL's search finds: it knows
neither the network's real latencies nor its faults, so what is chosen is often not the fastest.
The durations of what is chosen are `sim_server.collectives.tuning`'s.

Source of form and tables: ncclTopoTuneModel, ncclTopoGetAlgoTime and ncclTopoCompute in
src/graph/tuning.cc and search.cc of NCCL 2.18.3 to 2.30.7. What the search finds is taken to be one
channel for each NIC, at the largest of its speeds that NIC and NVLinks carry (assumed).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from sim_server.collectives.tuning import Algorithm, Protocol, Way
from sim_server.records import NcclOpKind

LL, LL128, SIMPLE = Protocol.LL, Protocol.LL128, Protocol.SIMPLE
RING, TREE = Algorithm.RING, Algorithm.TREE

# Versions at which the tables changed.
_SLOW_TREES = range(21900, 22300)
_HALF_LL = 22100
_FEWER_STEPS = 22300
_NVLS_EFFICIENCY = 22800
_SLOWER_NVLS = 22900

_MICROSECONDS_OF_BASE: Mapping[Way, float] = {
    (RING, LL): 6.6,
    (RING, LL128): 14,
    (RING, SIMPLE): 8.4,
    (TREE, LL): 6.8,
    (TREE, LL128): 14,
    (TREE, SIMPLE): 8.4,
    (Algorithm.PAT, SIMPLE): 8,
}
_ON_NVLINK_US: Mapping[Way, float] = {
    (RING, LL): 0.6,
    (RING, LL128): 1.9,
    (RING, SIMPLE): 3.4,
    (TREE, LL): 0.6,
    (TREE, LL128): 1.25,
    (TREE, SIMPLE): 4,
    (Algorithm.NVLS, SIMPLE): 25,
    (Algorithm.NVLS_TREE, SIMPLE): 25,
    (Algorithm.COLLNET_DIRECT, SIMPLE): 3.7,
    (Algorithm.COLLNET_CHAIN, SIMPLE): 2.8,
}
_ON_PCIE_US: Mapping[Way, float] = {
    (RING, LL): 1,
    (RING, LL128): 2.5,
    (RING, SIMPLE): 5.7,
    (TREE, LL): 1,
    (TREE, LL128): 1.9,
    (TREE, SIMPLE): 4,
    (Algorithm.COLLNET_CHAIN, SIMPLE): 2.8,
}
_BETWEEN_NODES_US: Mapping[Way, float] = {
    (RING, LL): 2.7,
    (RING, LL128): 4,
    (RING, SIMPLE): 14,
    (TREE, LL): 5,
    (TREE, LL128): 8.5,
    (TREE, SIMPLE): 14,
    (Algorithm.NVLS, SIMPLE): 18,
    (Algorithm.NVLS_TREE, SIMPLE): 20.9,
    (Algorithm.COLLNET_DIRECT, SIMPLE): 31,
    (Algorithm.COLLNET_CHAIN, SIMPLE): 30,
    (Algorithm.PAT, SIMPLE): 14,
}

# What trees lose at powers of two from 64 bytes on, in tenths.
_TREE_TENTHS: Mapping[Protocol, tuple[int, ...]] = {
    LL: (10, 10, 10, 10, 9, 8, 7, 7, 7, 7, 6, 5, 4, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10),
    LL128: (10, 10, 10, 10, 10, 9, 8, 8, 8, 7, 6, 6, 6, 6, 6, 6, 8, 9, 9, 9, 9, 10, 10),
    SIMPLE: (9, 9, 9, 9, 9, 9, 9, 8, 7, 6, 6, 5, 5, 5, 5, 6, 7, 8, 7, 7, 8, 9, 9),
}

_SPEEDS = {
    "ampere": (48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12),
    "hopper": (48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12),
    "blackwell": (96, 48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12),
}
"""GB/s of a channel that the search tries."""
# NCCL counts NVLinks at this part of what data sheets say.
_NVLINK_PART = 0.8
_WHOLE_PLATEAU = 1.4

LONGEST_LL_MESSAGE_BYTES = 16 << 10
"""Sends between nodes are LL up to here, then Simple. Source: NCCL_P2P_LL_THRESHOLD in
src/enqueue.cc."""


@dataclass(frozen=True)
class Generation:
    """What bounds a channel on one architecture, in GB/s: (two nodes, more)."""

    ring_ll128: tuple[float, float]
    tree_ll128: tuple[float, float]
    tree: tuple[float, float]
    nvls_tree: tuple[float, float] = (0, 0)
    nvls_efficiency: float = 0


_GENERATIONS = {
    "ampere": Generation((20, 20), (20, 20), (23.6, 17.8)),
    "hopper": Generation((36.7, 36.7), (36.7, 29), (41.4, 36), (57.7, 45.5), 0.85),
    "blackwell": Generation((40, 40), (31.67, 20), (42.8, 24), (96, 80), 0.74),
}
# Of LL in all channels together, by the processor's maker.
_LL_GBPS = {False: (39, 20.4), True: (22.5, 19)}
_POST_US = {False: 1.0, True: 2.0}


@dataclass(frozen=True)
class Machine:
    """What NCCL sees of the nodes of a communicator. Units: GB/s."""

    generation: str
    """Name in `_GENERATIONS`."""
    nvlink_gbps: float
    """Of a GPU, one way; 0 where GPUs reach each other over PCIe."""
    nics: int
    """That the ranks of a node use."""
    nic_gbps: float
    amd: bool
    """Whether the hosts' processors are AMD's."""
    ranks: int
    nodes: int

    @property
    def speed(self) -> float:
        """GB/s of a channel between nodes."""
        return self._largest(self.nic_gbps)

    @property
    def tree_speed(self) -> float:
        """GB/s of a channel of a tree: with two nodes the search lets a tree have more inside a
        node than its NIC carries, up to the first speed that is twice as much."""
        if self.nodes > 2:
            return self.speed
        speeds = sorted(_SPEEDS[self.generation])
        above = [one for one in speeds if one > self.speed and one <= self._inside]
        for number, one in enumerate(above):
            if one >= 2 * self.speed or number == len(above) - 1:
                return one
        return self.speed

    @property
    def _inside(self) -> float:
        return self.nvlink_gbps * _NVLINK_PART / self.nics if self.nvlink_gbps else self.nic_gbps

    def _largest(self, gbps: float) -> float:
        found = [one for one in _SPEEDS[self.generation] if one <= min(gbps, self._inside)]
        return found[0] if found else _SPEEDS[self.generation][-1]


class Tuner:
    """Estimates for the ranks of one communicator on several nodes."""

    def __init__(self, machine: Machine, version: int) -> None:
        """`version`: of the library, as ncclGetVersion tells it."""
        self._machine = machine
        self._version = version
        self._bounds = _GENERATIONS[machine.generation]
        self._more = int(machine.nodes > 2)

    def estimate_us(self, kind: NcclOpKind, way: Way, size_bytes: int) -> float:
        """Infinite for a way that NCCL would not take."""
        one, (algorithm, protocol) = self._machine, way
        gbps, latency_us = self._gbps(kind, way), self._latency_us(kind, way)
        if gbps == 0:
            return inf
        if kind is NcclOpKind.ALL_REDUCE:
            corrected = algorithm is TREE or (
                algorithm is Algorithm.NVLS_TREE
                and one.generation == "blackwell"
                and self._version >= _NVLS_EFFICIENCY
            )
            power = (size_bytes >> 6).bit_length() - 1
            if corrected and 0 <= power < len(_TREE_TENTHS[protocol]):
                gbps *= _TREE_TENTHS[protocol][power] / 10
            if way == (RING, SIMPLE) and size_bytes / (one.nics * one.ranks) >= 64:
                latency_us *= _WHOLE_PLATEAU
        return latency_us + size_bytes / (1000 * gbps)

    def _gbps(self, kind: NcclOpKind, way: Way) -> float:
        one, bounds, more = self._machine, self._bounds, self._more
        algorithm, protocol = way
        reduces_all = kind is NcclOpKind.ALL_REDUCE
        bus = one.nics * one.speed
        if algorithm is RING:
            if protocol is LL:
                part = 0.5 if self._version >= _HALF_LL else 0.25
                bus = min(_LL_GBPS[one.amd][more], bus * part)
            elif protocol is LL128:
                bus = min(bus * 0.92, one.nics * bounds.ring_ll128[more])
        elif algorithm is TREE:
            bus = min(one.nics * one.tree_speed * 0.92, one.nics * bounds.tree[more])
            if protocol is LL:
                bus = min(bus / 3.8, _LL_GBPS[one.amd][more])
            elif protocol is LL128:
                bus = min(bus * 120 / 128, one.nics * bounds.tree_ll128[more])
        elif algorithm is Algorithm.NVLS_TREE:
            bus = self._nvls_tree()
        elif algorithm is Algorithm.PAT:
            bus *= 0.75
        elif algorithm is Algorithm.COLLNET_DIRECT:
            bus = bus * 0.85 if reduces_all else self._gathered_by_switches()
        if algorithm is RING:
            return bus * one.ranks / self._steps(kind)
        if not reduces_all:
            return bus
        if algorithm is Algorithm.NVLS_TREE and self._version >= _NVLS_EFFICIENCY:
            return bus * one.ranks / self._steps(kind)
        return bus * (5 / 6 if algorithm in (Algorithm.NVLS, Algorithm.NVLS_TREE) else 0.5)

    def _nvls_tree(self) -> float:
        one, bounds = self._machine, self._bounds
        heads = one.nics
        if self._version < _NVLS_EFFICIENCY:
            return heads * one.speed / (1 + self._more)
        if heads < 2:
            return 0
        inside = one.tree_speed * bounds.nvls_efficiency * (heads - 1) / heads * 2
        between = one.speed * (2 - self._more)
        return heads * min(inside, between, bounds.nvls_tree[self._more])

    def _gathered_by_switches(self) -> float:
        one = self._machine
        ranks_of_node = one.ranks / one.nodes
        return ranks_of_node * one.speed * 0.9 if ranks_of_node <= one.nics else 0

    def _steps(self, kind: NcclOpKind) -> int:
        ranks = self._machine.ranks
        if kind is NcclOpKind.ALL_REDUCE:
            return 2 * (ranks - 1)
        return ranks - 1 if kind in (NcclOpKind.ALL_GATHER, NcclOpKind.REDUCE_SCATTER) else ranks

    def _latency_us(self, kind: NcclOpKind, way: Way) -> float:
        one, (algorithm, protocol) = self._machine, way
        base_us = _MICROSECONDS_OF_BASE.get(way, 0)
        on_node_us = (_ON_NVLINK_US if one.nvlink_gbps else _ON_PCIE_US).get(way, 0)
        between_us = _BETWEEN_NODES_US[way]
        if one.ranks == one.nodes and self._version >= _FEWER_STEPS:
            between_us = _BETWEEN_NODES_US[TREE, protocol]
        if algorithm is RING:
            return base_us + self._around_us(kind, protocol, on_node_us, between_us)
        if way == (TREE, SIMPLE) and self._version in _SLOW_TREES:
            base_us, on_node_us, between_us = 0, 28, 28
        if algorithm is Algorithm.NVLS_TREE and self._version < _SLOWER_NVLS:
            between_us = 14
        others, depth = one.ranks // one.nodes - 1, one.nodes.bit_length() - 1
        waits_us = {
            TREE: 2 * (others * on_node_us + depth * between_us),
            Algorithm.NVLS: on_node_us + between_us,
            Algorithm.NVLS_TREE: on_node_us + 2 * depth * between_us,
            Algorithm.PAT: depth * between_us / 3.5 + 2.8 * one.ranks,
            Algorithm.COLLNET_DIRECT: 2 * min(1, others) * on_node_us + 0.8 * others + between_us,
            Algorithm.COLLNET_CHAIN: 2 * others * on_node_us + between_us,
        }
        return base_us + waits_us[algorithm]

    def _around_us(
        self, kind: NcclOpKind, protocol: Protocol, on_node_us: float, between_us: float
    ) -> float:
        """Of a ring: a chain that is not waited for, or all steps."""
        if kind in (NcclOpKind.BROADCAST, NcclOpKind.REDUCE):
            return between_us
        one = self._machine
        crossings = one.nodes - 1
        if kind is NcclOpKind.ALL_REDUCE:
            crossings = 2 * (one.nodes - (self._version >= _FEWER_STEPS))
        post_us = _POST_US[one.amd] * (3 if protocol is SIMPLE else 1)
        return (self._steps(kind) - crossings) * max(on_node_us, post_us) + crossings * between_us
