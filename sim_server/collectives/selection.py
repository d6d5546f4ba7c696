"""Which algorithm and protocol an operation uses: the least estimated time, as in NCCL.

NCCL estimates latency + size / bandwidth for every algorithm and protocol and takes the least
(ncclTopoGetAlgoTime in NCCL 2.20.3). The estimate here has the same form, but is made of the costs
with which the operation is then simulated (`sim_server.collectives.tuning`) and of the links of its
routes. So there is no table of thresholds: they follow from the costs. NCCL_ALGO and NCCL_PROTO
restrict the choice as they do in NCCL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from sim_server.collectives.direct import exchange_shape, rooted_shape
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

# Names that NCCL_ALGO may hold, of algorithms that need hardware which no cluster here has
# (reductions in the network's switches) or are not modelled yet (PAT).
_NEVER_CHOSEN = ["CollnetDirect", "CollnetChain", "PAT"]


@dataclass(frozen=True)
class Plan:
    """How an operation is carried out: a delay, then flows."""

    algorithm: Algorithm
    protocol: Protocol
    startup_ns: int
    """Until the pipeline is full."""
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
        """Time from the full pipeline to the end when nothing else uses the links."""
        inside, between = self.wire_factors(cost)
        return buffer_bytes * max(
            self.seconds_per_byte[False] * inside, self.seconds_per_byte[True] * between
        )

    def wire_factors(self, cost: Cost) -> tuple[float, float]:
        """Capacity that a byte of payload takes, inside a node and between nodes."""
        shape = self.shape
        own = cost.own_weight * shape.own_share / shape.sent_share
        return (1 + own) / cost.nvlink_efficiency, 1 / cost.network_efficiency


_Candidate = tuple[Algorithm, Protocol, _Routed, Cost]


def _path(transfer: Transfer, group: Group, topology: Topology) -> tuple[int, ...]:
    if transfer.source is None:
        assert transfer.destination is not None, "a flow has a rank at one end at least"
        return topology.from_switch(group.gpu[transfer.destination])
    if transfer.destination is None:
        return topology.to_switch(group.gpu[transfer.source])
    return topology.path(group.gpu[transfer.source], group.gpu[transfer.destination])


class Selection:
    """Plans for operations on one topology under one tuning."""

    def __init__(self, topology: Topology, tuning: str, environment: Mapping[str, str]) -> None:
        if tuning not in TUNINGS:
            raise UsageError(
                f'collectives = "{tuning}" is not a known tuning; use one of {", ".join(TUNINGS)}'
            )
        self._topology = topology
        self._tuning: Tuning = TUNINGS[tuning]
        self._algorithms = _allowed(
            "NCCL_ALGO", environment, [a.value for a in Algorithm] + _NEVER_CHOSEN
        )
        self._protocols = _allowed("NCCL_PROTO", environment, [p.value for p in Protocol])
        self._routed: dict[tuple[NcclOpKind, tuple[int, ...], int], dict[Algorithm, _Routed]] = {}

    def plan(self, operation: Operation, group: Group) -> Plan:
        """The fastest way to carry out an operation of at least two participants."""
        candidates = list(self._candidates(operation, group))
        if not candidates:
            raise UsageError(
                f"NCCL_ALGO and NCCL_PROTO leave no way to do {operation.kind.name}; "
                "unset one of them"
            )
        return _fastest(candidates, operation.buffer_bytes)

    def plan_exchange(self, sends: Sequence[Operation], group: Group) -> Plan:
        """The fastest way to carry out sends of one launch; one demand for each."""
        sizes = [(send.source, send.destination, send.buffer_bytes) for send in sends]
        routed = _Routed(exchange_shape(sizes, group), group, self._topology)
        candidates = [
            (algorithm, protocol, routed, cost)
            for (algorithm, protocol), cost in self._tuning.items()
            if algorithm is Algorithm.DIRECT
        ]
        return _fastest(candidates, sum(size_bytes for _, _, size_bytes in sizes))

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
            if algorithm in _NVLS and not switch_can_reduce(operation):
                continue
            # Inside a node a ring moves less than a tree in as many steps; the fitted costs do not
            # tell them apart, so a tree is used there only when rings are forbidden.
            ring_is_allowed = Algorithm.RING.value in self._algorithms
            if algorithm is Algorithm.TREE and len(group.nodes) == 1 and ring_is_allowed:
                continue
            yield algorithm, protocol, shapes[algorithm], cost

    def _is_allowed(self, algorithm: Algorithm, protocol: Protocol, choices: int) -> bool:
        """Whether the user's variables leave this; as in NCCL they bind where there is a choice."""
        if algorithm is Algorithm.DIRECT:
            return True
        named = choices == 1 or algorithm.value in self._algorithms
        return named and protocol.value in self._protocols


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


def _fastest(candidates: Iterable[_Candidate], buffer_bytes: int) -> Plan:
    def estimate_ns(candidate: _Candidate) -> float:
        _, _, routed, cost = candidate
        return routed.startup_ns(cost, buffer_bytes) + routed.seconds(cost, buffer_bytes) * 1e9

    algorithm, protocol, routed, cost = min(candidates, key=estimate_ns)
    return Plan(
        algorithm,
        protocol,
        routed.startup_ns(cost, buffer_bytes),
        _demands(routed, cost, buffer_bytes),
    )


def _demands(routed: _Routed, cost: Cost, buffer_bytes: int) -> tuple[Demand, ...]:
    """Flows of a plan.

    The flows of a pipeline advance together, so each is capped at the rate at which it ends with
    the slowest when nothing else uses the links.
    """
    inside, between = routed.wire_factors(cost)
    sizes = [
        transfer.share * buffer_bytes * (between if crosses else inside)
        for transfer, crosses in zip(routed.shape.transfers, routed.crosses, strict=True)
    ]
    seconds = routed.seconds(cost, buffer_bytes)
    if not routed.shape.coupled or seconds == 0:
        return tuple(map(Demand, routed.paths, sizes))
    return tuple(
        Demand(path, size, size / seconds) for path, size in zip(routed.paths, sizes, strict=True)
    )


def _allowed(variable: str, environment: Mapping[str, str], known: list[str]) -> frozenset[str]:
    """Names that a variable such as NCCL_ALGO="Ring,Tree" or "^Tree" leaves."""
    text = environment.get(variable, "").strip()
    if not text:
        return frozenset(known)
    by_name = {name.lower(): name for name in known}
    names = [name.strip().lower() for name in text.removeprefix("^").split(",")]
    for name in names:
        if name not in by_name:
            raise UsageError(
                f"{variable}={text}: '{name}' is not modelled; known are {', '.join(known)}"
            )
    chosen = {by_name[name] for name in names}
    return frozenset(set(known) - chosen if text.startswith("^") else chosen)
