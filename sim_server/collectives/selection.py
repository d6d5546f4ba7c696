"""Which algorithm and protocol an operation uses, as NCCL chooses them: the least estimated time.

Between nodes the estimate is NCCL's own (`sim_server.collectives.tuner`), which may be wrong: its
switches of algorithm and protocol show in measurements as jumps. Inside a node, where NCCL's tables
fit better, it is made of the costs with which the operation is then simulated
(`sim_server.collectives.tuning`) and of the links of its routes. The user's NCCL_* variables
restrict the choice as they do in NCCL (`sim_server.collectives.environment`).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import NamedTuple
from typing import Protocol as TypingProtocol

from sim_server.collectives.algorithms import abilities, can_compute, shapes
from sim_server.collectives.channels import ChannelRates, Channels, channels_of
from sim_server.collectives.direct import exchange_shape
from sim_server.collectives.environment import NcclEnvironment
from sim_server.collectives.group import Group
from sim_server.collectives.pairwise import pairwise_shape
from sim_server.collectives.routed import Route, Routed
from sim_server.collectives.tuner import LONGEST_LL_MESSAGE_BYTES, Machine, Tuner
from sim_server.collectives.tuning import Algorithm, Cost, Protocol, Tuning, Way
from sim_server.errors import UsageError
from sim_server.network import Demand, Fold, Gpu, Topology
from sim_server.records import NcclOpKind
from sim_server.records.operations import Operation

# An exchange of fewer ranks is not folded: it would save nothing.
_FOLDED_RANKS = 16


# What operations have in common that every algorithm carries out alike: kind, position of the root,
# pattern of the GPUs.
_Alike = tuple[NcclOpKind, int, tuple[Hashable, ...]]


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
    fold: Fold | None = None
    """What the flows stand for, where they are classes."""


class Line(NamedTuple):
    """An estimated time as a function of the buffer: straight, but for where filling ends."""

    base_ns: float
    ns_per_byte: float
    fill_ns_per_byte: float
    """On top of that, up to `fill_bytes`."""
    fill_bytes: float


class _Candidate(NamedTuple):
    """One way to carry out an operation."""

    algorithm: Algorithm
    protocol: Protocol
    routed: Routed
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

    def estimate_ns(self, buffer_bytes: int) -> float:
        """Time of the whole when nothing else uses the links."""
        return self.routed.startup_ns(self.cost, buffer_bytes) + self.seconds(buffer_bytes) * 1e9

    def line(self) -> Line:
        """`estimate_ns` of all sizes."""
        shape = self.routed.shape
        fill = self.routed.filling(self.cost)
        return Line(
            self.routed.startup_ns(self.cost, 0),
            self.seconds(1) * 1e9,
            shape.waits * shape.filling_share * fill.fill_ns_per_mb / 1e6,
            fill.fill_limit_bytes / shape.filling_share,
        )


class Costs(TypingProtocol):
    """What the library costs; see `sim_server.collectives.library`."""

    def tuning(self, group: Group) -> Tuning:
        """Costs of the operations of these ranks."""

    def rates(self, group: Group) -> ChannelRates:
        """What a channel of these ranks carries."""

    def machine(self, group: Group, topology: Topology) -> Machine | None:
        """What NCCL sees of the nodes of these ranks; None where it does not choose."""


class Selection:
    """Plans for operations on one topology under one library's costs."""

    def __init__(self, topology: Topology, library: Costs, environment: NcclEnvironment) -> None:
        self._topology = topology
        self.library = library
        """May be changed: what has been planned stays as it is."""
        self._environment = environment
        self._routed: dict[_Alike, dict[Algorithm, Routed]] = {}
        self._tuners: dict[tuple[Hashable, ...], Tuner | None] = {}

    def plan(self, operation: Operation, group: Group) -> Plan:
        """How an operation of at least two participants is carried out."""
        return _planned(self._chosen(operation, group), operation.buffer_bytes, _by_position(group))

    def way(self, operation: Operation, group: Group) -> Way:
        """Algorithm and protocol of its plan."""
        chosen = self._chosen(operation, group)
        return chosen.algorithm, chosen.protocol

    def estimate_ns(self, operation: Operation, group: Group) -> float:
        """Time of an operation alone, as it is planned."""
        return self._chosen(operation, group).estimate_ns(operation.buffer_bytes)

    def estimates_ns(self, operation: Operation, group: Group) -> dict[Way, float]:
        """Time of an operation alone in every way there is."""
        return {
            (one.algorithm, one.protocol): one.estimate_ns(operation.buffer_bytes)
            for one in self._candidates(operation, group)
        }

    def lines(self, operation: Operation, group: Group) -> dict[Way, Line]:
        """`estimates_ns` of operations that are like this one but for their size."""
        return {
            (one.algorithm, one.protocol): one.line() for one in self._candidates(operation, group)
        }

    def plan_exchange(self, sends: Sequence[Operation], group: Group) -> Plan:
        """The fastest way to carry out sends of one launch; one demand for each."""
        sizes = [(send.source, send.destination, send.buffer_bytes) for send in sends]
        shape = exchange_shape(sizes, group)
        routed = Routed(shape, group.gpu, self._topology)
        candidates = [
            self._candidate(algorithm, protocol, routed, cost, group)
            for (algorithm, protocol), cost in self.library.tuning(group).items()
            if algorithm is Algorithm.DIRECT
            and (not routed.crosses or (cost.between and self._topology.allows(protocol.value)))
        ]
        total_bytes = sum(size_bytes for _, _, size_bytes in sizes)
        chosen = _sent(candidates, total_bytes, max(size_bytes for _, _, size_bytes in sizes))
        return _planned(chosen, total_bytes, group.gpu)

    def _chosen(self, operation: Operation, group: Group) -> _Candidate:
        candidates = list(self._candidates(operation, group))
        if not candidates:
            raise UsageError(
                f"NCCL_ALGO and NCCL_PROTO leave no way to do {operation.kind.name}; "
                "unset one of them"
            )
        if candidates[0].algorithm is Algorithm.DIRECT:
            longest_bytes = operation.buffer_bytes // group.size
            return _sent(candidates, operation.buffer_bytes, longest_bytes)
        tuner = self._tuner(group)
        if tuner is None:
            return _fastest(candidates, operation.buffer_bytes)
        return min(
            candidates,
            key=lambda one: tuner.estimate_us(
                operation.kind, (one.algorithm, one.protocol), operation.buffer_bytes
            ),
        )

    def _tuner(self, group: Group) -> Tuner | None:
        pattern = self._topology.pattern(list(group.gpu.values()))
        if pattern not in self._tuners:
            machine = self.library.machine(group, self._topology)
            version = self._environment.version
            self._tuners[pattern] = None if machine is None else Tuner(machine, version)
        return self._tuners[pattern]

    def _candidates(self, operation: Operation, group: Group) -> Iterator[_Candidate]:
        pattern = self._topology.pattern(list(group.gpu.values()))
        key = (operation.kind, operation.root, pattern)
        routed = self._routed.get(key)
        if routed is None:
            routed = self._routed[key] = dict(self._route_all(operation, group))
        named = self._named(operation.kind, routed)
        for (algorithm, protocol), cost in self.library.tuning(group).items():
            if algorithm not in named or not self._is_allowed(protocol, algorithm, group):
                continue
            if not can_compute(algorithm, operation, self._environment):
                continue
            # Inside a node a ring moves less than a tree in as many steps; the fitted costs do not
            # tell them apart, so a tree is used there only when rings are forbidden.
            ring_is_allowed = Algorithm.RING.value in self._environment.algorithms
            if algorithm is Algorithm.TREE and len(group.nodes) == 1 and ring_is_allowed:
                continue
            if routed[algorithm].crosses and (
                cost.between is None or not self._topology.allows(protocol.value)
            ):
                continue
            yield self._candidate(algorithm, protocol, routed[algorithm], cost, group)

    def _route_all(self, operation: Operation, group: Group) -> Iterator[tuple[Algorithm, Routed]]:
        """Every algorithm, with positions in the group in place of its ranks."""
        topology, kind = self._topology, operation.kind
        gpus = _by_position(group)
        alike = Group(tuple(gpus), list(gpus.values()))
        if kind is NcclOpKind.ALL_TO_ALL and topology.is_symmetric and group.size >= _FOLDED_RANKS:
            shape = pairwise_shape(alike, folded=True)
            yield Algorithm.DIRECT, Routed(shape, gpus, topology, folded=True)
            return
        has = abilities(topology, self._environment, group)
        for algorithm, shape in shapes(kind, alike, operation.root, has):
            yield algorithm, Routed(shape, gpus, topology)

    def _candidate(
        self, algorithm: Algorithm, protocol: Protocol, routed: Routed, cost: Cost, group: Group
    ) -> _Candidate:
        channels = channels_of(algorithm, group, self._environment)
        bytes_per_s = self.library.rates(group).of(protocol) if channels.limited else inf
        buffer_bytes = self._environment.buffer_bytes
        if buffer_bytes is not None and protocol is Protocol.SIMPLE:
            step_ns = max(routed.step_ns(cost), 1)
            bytes_per_s = min(bytes_per_s, buffer_bytes * 1e9 / step_ns)
        return _Candidate(algorithm, protocol, routed, cost, channels, channels.count * bytes_per_s)

    def _named(self, kind: NcclOpKind, routed: Collection[Algorithm]) -> Collection[Algorithm]:
        """Algorithms that NCCL_ALGO leaves. It binds where there is a choice: an operation of which
        it names no algorithm is done in rings, the backup of NCCL 2.20.3.
        """
        named = [one for one in routed if one.value in self._environment.algorithms]
        if named or kind is NcclOpKind.ALL_REDUCE:
            return named
        return [Algorithm.RING] if Algorithm.RING in routed else routed

    def _is_allowed(self, protocol: Protocol, algorithm: Algorithm, group: Group) -> bool:
        """Whether the user's variables leave this protocol."""
        if algorithm is Algorithm.DIRECT:
            return True
        if protocol is Protocol.LL128 and not self._topology.has_nvlink(group.node_numbers):
            return False  # NCCL uses it over NVLink only (src/graph/tuning.cc of NCCL 2.20.3)
        return protocol.value in self._environment.protocols


def _by_position(group: Group) -> dict[int, Gpu]:
    return dict(enumerate(group.gpu.values()))


def _fastest(candidates: Iterable[_Candidate], buffer_bytes: int) -> _Candidate:
    return min(candidates, key=lambda one: one.estimate_ns(buffer_bytes))


def _sent(candidates: Sequence[_Candidate], buffer_bytes: int, longest_bytes: int) -> _Candidate:
    """Of sends and receives: by the longest message where they cross nodes."""
    if candidates[0].routed.crosses:
        wanted = Protocol.LL if longest_bytes <= LONGEST_LL_MESSAGE_BYTES else Protocol.SIMPLE
        candidates = [one for one in candidates if one.protocol is wanted] or candidates
    return _fastest(candidates, buffer_bytes)


def _planned(best: _Candidate, buffer_bytes: int, gpus: Mapping[int, Gpu]) -> Plan:
    """`gpus` are those of the ranks that the candidate's shape names."""
    routes = best.routed.routes(gpus)
    return Plan(
        best.algorithm,
        best.protocol,
        ceil(best.routed.startup_ns(best.cost, buffer_bytes)),
        best.channels.used(best.algorithm, best.protocol, len(gpus), buffer_bytes),
        _demands(best, routes.flows, buffer_bytes),
        routes.fold,
    )


def _demands(
    candidate: _Candidate, routes: Iterable[Route], buffer_bytes: int
) -> tuple[Demand, ...]:
    """Flows of a plan.

    The flows of a pipeline advance together, so each is capped at the rate at which it ends with
    the slowest when nothing else uses the links. Flows that are independent are capped by the
    channels only.
    """
    routed = candidate.routed
    inside, between = routed.wire_factors(candidate.cost)
    coupled = routed.shape.coupled
    seconds = (candidate.seconds if coupled else candidate.channel_seconds)(buffer_bytes)
    demands = []
    for path, share, crosses, flows_on_link, flows in routes:
        size_bytes = share * buffer_bytes * (between if crosses else inside)
        cap_bytes_per_s = size_bytes / seconds if seconds else inf
        demands.append(Demand(path, size_bytes, cap_bytes_per_s, flows_on_link, flows))
    return tuple(demands)
