"""Which algorithm and protocol an operation uses: the least estimated time, as in NCCL.

NCCL estimates latency + size / bandwidth for every algorithm and protocol and takes the least
(ncclTopoGetAlgoTime in NCCL 2.20.3). The estimate here has the same form, but is made of the costs
with which the operation is then simulated (`sim_server.collectives.tuning`) and of the links of its
routes. So there is no table of thresholds: they follow from the costs. The user's NCCL_* variables
restrict the choice as they do in NCCL (`sim_server.collectives.environment`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import NamedTuple

from sim_server.collectives.channels import CHANNEL_RATES, Channels, channels_of
from sim_server.collectives.direct import exchange_shape, rooted_shape
from sim_server.collectives.environment import NcclEnvironment
from sim_server.collectives.group import Group
from sim_server.collectives.nvls import nvls_shape, nvls_tree_shape, switch_can_reduce
from sim_server.collectives.pairwise import pairwise_shape
from sim_server.collectives.ring import ring_shape
from sim_server.collectives.shape import Shape, Transfer
from sim_server.collectives.tree import tree_shape
from sim_server.collectives.tuning import TUNINGS, Algorithm, Cost, Protocol, Tuning
from sim_server.errors import UsageError
from sim_server.network import Demand, Topology
from sim_server.operations import Operation
from sim_server.records import NcclOpKind

_NVLS = (Algorithm.NVLS, Algorithm.NVLS_TREE)


@dataclass(frozen=True)
class Plan:
    """How an operation is carried out: a delay, then flows."""

    algorithm: Algorithm
    protocol: Protocol
    startup_ns: int
    """Until the pipeline is full."""
    channels: int
    """How many of NCCL's channels the operation uses."""
    demands: tuple[Demand, ...]
    """The flows that start then."""


class _Routed:
    """A shape with its routes and what follows from them for any size and protocol."""

    def __init__(self, shape: Shape, group: Group, topology: Topology) -> None:
        self.shape = shape
        self.paths = [_path(transfer, group, topology) for transfer in shape.transfers]
        self.crosses = [
            None not in transfer[:2] and group.crosses(transfer.source, transfer.destination)  # type: ignore[arg-type]
            for transfer in shape.transfers
        ]
        load: dict[int, float] = {}
        self.seconds_per_byte = {False: 0.0, True: 0.0}
        self.latency_ns = {False: 0, True: 0}
        for transfer, path, crosses in zip(shape.transfers, self.paths, self.crosses, strict=True):
            latency_ns = topology.latency_ns(path)
            self.latency_ns[crosses] = max(self.latency_ns[crosses], latency_ns)
            for link in path:
                load[link] = load.get(link, 0.0) + transfer.share
                seconds = load[link] / topology.links[link].capacity_bytes_per_s
                self.seconds_per_byte[crosses] = max(self.seconds_per_byte[crosses], seconds)

    def startup_ns(self, cost: Cost, buffer_bytes: int) -> int:
        """Time until the pipeline is full."""
        shape = self.shape
        sent_bytes = min(shape.sent_share * buffer_bytes, cost.fill_limit_bytes)
        return (
            cost.base_ns
            + shape.nvlink_steps * (cost.nvlink_step_ns + self.latency_ns[False])
            + shape.network_steps * (cost.network_step_ns + self.latency_ns[True])
            + shape.messages * cost.message_ns
            + ceil(sent_bytes / 1e6 * cost.fill_ns_per_mb * 1e3)
        )

    def seconds(self, cost: Cost, buffer_bytes: int) -> float:
        """Time that the links take from the full pipeline to the end when all are idle."""
        inside, between = self.wire_factors(cost)
        return buffer_bytes * max(
            self.seconds_per_byte[False] * inside, self.seconds_per_byte[True] * between
        )

    def step_ns(self, cost: Cost) -> int:
        """Time of the longest step."""
        inside_ns = cost.nvlink_step_ns + self.latency_ns[False]
        between_ns = cost.network_step_ns + self.latency_ns[True]
        return max(inside_ns, between_ns if any(self.crosses) else 0)

    def wire_factors(self, cost: Cost) -> tuple[float, float]:
        """Capacity that a byte of payload takes, inside a node and between nodes."""
        shape = self.shape
        own = cost.own_weight * shape.own_share / shape.sent_share
        return (1 + own) / cost.nvlink_efficiency, 1 / cost.network_efficiency


class _Candidate(NamedTuple):
    """One way to carry out an operation."""

    algorithm: Algorithm
    protocol: Protocol
    routed: _Routed
    cost: Cost
    channels: Channels
    channels_bytes_per_s: float
    """What a rank's channels carry together; infinite where the links are the limit."""

    def channel_seconds(self, buffer_bytes: int) -> float:
        """Time that the channels take to send what a rank sends; 0 where they are no limit."""
        return self.routed.shape.sent_share * buffer_bytes / self.channels_bytes_per_s

    def seconds(self, buffer_bytes: int) -> float:
        """Time from the full pipeline to the end when nothing else uses the links."""
        return max(self.routed.seconds(self.cost, buffer_bytes), self.channel_seconds(buffer_bytes))


def _path(transfer: Transfer, group: Group, topology: Topology) -> tuple[int, ...]:
    if transfer.source is None:
        assert transfer.destination is not None, "a flow has a rank at one end at least"
        return topology.from_switch(group.gpu[transfer.destination])
    if transfer.destination is None:
        return topology.to_switch(group.gpu[transfer.source])
    return topology.path(group.gpu[transfer.source], group.gpu[transfer.destination])


class Selection:
    """Plans for operations on one topology under one tuning."""

    def __init__(self, topology: Topology, tuning: str, environment: NcclEnvironment) -> None:
        if tuning not in TUNINGS:
            raise UsageError(
                f'collectives = "{tuning}" is not a known tuning; use one of {", ".join(TUNINGS)}'
            )
        self._topology = topology
        self._tuning: Tuning = TUNINGS[tuning]
        self._rates = CHANNEL_RATES[tuning]
        self._environment = environment
        self._routed: dict[tuple[NcclOpKind, tuple[int, ...], int], dict[Algorithm, _Routed]] = {}

    def plan(self, operation: Operation, group: Group) -> Plan:
        """The fastest way to carry out an operation of at least two participants."""
        candidates = list(self._candidates(operation, group))
        if not candidates:
            raise UsageError(
                f"NCCL_ALGO and NCCL_PROTO leave no way to do {operation.kind.name}; "
                "unset one of them"
            )
        return _fastest(candidates, operation.buffer_bytes, group)

    def plan_exchange(self, sends: Sequence[Operation], group: Group) -> Plan:
        """The fastest way to carry out sends of one launch; one demand for each."""
        sizes = [(send.source, send.destination, send.buffer_bytes) for send in sends]
        routed = _Routed(exchange_shape(sizes, group), group, self._topology)
        candidates = [
            self._candidate(algorithm, protocol, routed, cost, group)
            for (algorithm, protocol), cost in self._tuning.items()
            if algorithm is Algorithm.DIRECT
        ]
        return _fastest(candidates, sum(size_bytes for _, _, size_bytes in sizes), group)

    def _candidates(self, operation: Operation, group: Group) -> Iterator[_Candidate]:
        root = group.ranks[operation.root]
        key = (operation.kind, group.ranks, root)
        shapes = self._routed.get(key)
        if shapes is None:
            shapes = self._routed[key] = {
                algorithm: _Routed(shape, group, self._topology)
                for algorithm, shape in _shapes(operation.kind, group, root)
            }
        for (algorithm, protocol), cost in self._tuning.items():
            if algorithm not in shapes or not self._is_allowed(algorithm, protocol, len(shapes)):
                continue
            if algorithm in _NVLS and not self._switch_reduces(operation):
                continue
            # Inside a node a ring moves less than a tree in as many steps; the fitted costs do not
            # tell them apart, so a tree is used there only when rings are forbidden.
            ring_is_allowed = Algorithm.RING.value in self._environment.algorithms
            if algorithm is Algorithm.TREE and len(group.nodes) == 1 and ring_is_allowed:
                continue
            yield self._candidate(algorithm, protocol, shapes[algorithm], cost, group)

    def _candidate(
        self, algorithm: Algorithm, protocol: Protocol, routed: _Routed, cost: Cost, group: Group
    ) -> _Candidate:
        channels = channels_of(algorithm, group, self._environment)
        bytes_per_s = self._rates.of(protocol) if channels.limited else inf
        buffer_bytes = self._environment.buffer_bytes
        if buffer_bytes is not None and protocol is Protocol.SIMPLE:
            step_ns = max(routed.step_ns(cost), 1)
            bytes_per_s = min(bytes_per_s, buffer_bytes * 1e9 / step_ns)
        return _Candidate(algorithm, protocol, routed, cost, channels, channels.count * bytes_per_s)

    def _switch_reduces(self, operation: Operation) -> bool:
        """Whether NVLS can do this. That it goes with peer-to-peer access is assumed."""
        environment = self._environment
        return environment.nvls and environment.peer_to_peer and switch_can_reduce(operation)

    def _is_allowed(self, algorithm: Algorithm, protocol: Protocol, choices: int) -> bool:
        """Whether the user's variables leave this; as in NCCL they bind where there is a choice."""
        if algorithm is Algorithm.DIRECT:
            return True
        if protocol is Protocol.LL128 and not self._environment.peer_to_peer:
            return False  # NCCL uses it over NVLink only (src/graph/tuning.cc of NCCL 2.20.3)
        named = choices == 1 or algorithm.value in self._environment.algorithms
        return named and protocol.value in self._environment.protocols


def _shapes(kind: NcclOpKind, group: Group, root: int) -> Iterator[tuple[Algorithm, Shape]]:
    """Every algorithm that can do this operation."""
    if kind is NcclOpKind.ALL_TO_ALL:
        yield Algorithm.DIRECT, pairwise_shape(group)
    elif kind in (NcclOpKind.GATHER, NcclOpKind.SCATTER):
        yield Algorithm.DIRECT, rooted_shape(kind, group, root)
    else:
        shapes = (
            (Algorithm.RING, ring_shape(kind, group, root)),
            (Algorithm.TREE, tree_shape(kind, group)),
            (Algorithm.NVLS, nvls_shape(kind, group)),
            (Algorithm.NVLS_TREE, nvls_tree_shape(kind, group)),
        )
        for algorithm, shape in shapes:
            if shape is not None:
                yield algorithm, shape


def _fastest(candidates: Iterable[_Candidate], buffer_bytes: int, group: Group) -> Plan:
    def estimate_ns(one: _Candidate) -> float:
        return one.routed.startup_ns(one.cost, buffer_bytes) + one.seconds(buffer_bytes) * 1e9

    best = min(candidates, key=estimate_ns)
    return Plan(
        best.algorithm,
        best.protocol,
        best.routed.startup_ns(best.cost, buffer_bytes),
        best.channels.used(best.algorithm, best.protocol, group.size, buffer_bytes),
        _demands(best, buffer_bytes),
    )


def _demands(candidate: _Candidate, buffer_bytes: int) -> tuple[Demand, ...]:
    """Flows of a plan.

    The flows of a pipeline advance together, so each is capped at the rate at which it ends with
    the slowest when nothing else uses the links. Flows that are independent are capped by the
    channels only.
    """
    routed = candidate.routed
    inside, between = routed.wire_factors(candidate.cost)
    sizes = [
        transfer.share * buffer_bytes * (between if crosses else inside)
        for transfer, crosses in zip(routed.shape.transfers, routed.crosses, strict=True)
    ]
    coupled = routed.shape.coupled
    seconds = (candidate.seconds if coupled else candidate.channel_seconds)(buffer_bytes)
    if seconds == 0:
        return tuple(map(Demand, routed.paths, sizes))
    return tuple(
        Demand(path, size, size / seconds) for path, size in zip(routed.paths, sizes, strict=True)
    )
