"""Operations of NCCL as nodes: kind, bytes, group; an all-to-all as one node.

NCCL has no all-to-all with splits: programs launch sends to all and receives from all at once. Such
a launch has a send of a rank to itself, which nothing else has, or one for each other rank; it
becomes one collective with its splits, zeros included, and says which of these were launched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from phantora_py.traces.recorded_steps import RecordedStep
from sim_server.chakra.execution_trace_pb2 import (
    ALL_TO_ALL,
    COMM_COLL_NODE,
    COMM_RECV_NODE,
    COMM_SEND_NODE,
    NodeType,
)
from sim_server.chakra.files import Value
from sim_server.chakra.operations import (
    COLLECTIVES,
    DATA_TYPES,
    EMPTY_RECEIVES,
    EMPTY_SENDS,
    size_bytes,
)
from sim_server.files.schema import Fault
from sim_server.records import NcclOpKind, RecordKind, named_args

_ROOTED = (NcclOpKind.BROADCAST, NcclOpKind.REDUCE, NcclOpKind.GATHER, NcclOpKind.SCATTER)
_REDUCING = (NcclOpKind.ALL_REDUCE, NcclOpKind.REDUCE, NcclOpKind.REDUCE_SCATTER)
_POINT_TO_POINT = (NcclOpKind.SEND, NcclOpKind.RECV)
_LEAST_PEERS = 3
"""Fewest peers of an all-to-all: with fewer it could be two neighbours that exchange data."""


@dataclass(frozen=True)
class Ran:
    """When something ran, in ns. `id`: of its span."""

    start_ns: int
    end_ns: int
    id: int


@dataclass(frozen=True)
class Operation:
    """As recorded."""

    kind: NcclOpKind
    group: int
    count: int
    dtype: int
    reduction: int
    peer: int
    """Or the root: its place in the group."""
    sequence: int

    @staticmethod
    def of(step: RecordedStep) -> Operation:
        """Of its record. Raises: Fault for a data type that there is not."""
        args = named_args(RecordKind.NCCL_OP, step.args)
        if args["dtype"] >= len(DATA_TYPES):
            raise Fault(f"{args['dtype']} is not a data type of NCCL")
        return Operation(
            *(NcclOpKind(step.flags), step.id, args["count"], args["dtype"]),
            *(args["reduction"], args["root"], args["sequence"]),
        )


@dataclass(frozen=True)
class OperationNode:
    """What is to be a node."""

    name: str
    type: NodeType
    ran: Ran | None
    attributes: dict[str, Value]


def operation_nodes(
    rank: int,
    members: Mapping[int, Sequence[int]],
    operations: Sequence[Operation],
    ran: Sequence[Ran | None],
) -> list[OperationNode]:
    """Of the operations of one launch, and when each of them ran."""
    unknown = {one.group for one in operations} - set(members)
    if unknown:
        raise Fault(f"there is no communicator {min(unknown)}")
    if _is_exchange(rank, members, operations):
        return [_exchange(members[operations[0].group], operations, ran)]
    pairs = zip(operations, ran, strict=True)
    return [_node(rank, members[one.group], one, when) for one, when in pairs]


def launches(steps: Iterable[RecordedStep]) -> Iterator[list[Operation]]:
    """The operations of each launch of NCCL."""
    pending: list[Operation] = []
    count = 0
    for step in steps:
        if step.kind is RecordKind.NCCL_LAUNCH:
            pending, count = [], step.args[0]
        elif step.kind is RecordKind.NCCL_OP:
            pending.append(Operation.of(step))
            if len(pending) == count:
                yield pending


class ExchangeSizes:
    """Of all-to-alls with splits: the bytes of the rank that has most, which all ranks tell.

    A simulator that does not know splits finds the parts of an all-to-all by their sizes.
    """

    def __init__(self, members: Mapping[int, Sequence[int]]) -> None:
        self._members = members
        self._most: dict[tuple[int, int], int] = {}

    def add(self, rank: int, steps: Iterable[RecordedStep]) -> None:
        """What a rank has of them."""
        counts: Counter[int] = Counter()
        for operations in launches(steps):
            if operations[0].group in self._members and _is_exchange(
                rank, self._members, operations
            ):
                group = operations[0].group
                key = (group, counts[group])
                counts[group] += 1
                size = _exchanged_bytes(operations)
                self._most[key] = max(self._most.get(key, 0), size)

    def of(self, group: int, number: int) -> int:
        """Of a group's exchange with this number."""
        return self._most[group, number]


def _exchanged_bytes(operations: Sequence[Operation]) -> int:
    """That a rank sends or receives in an exchange, whichever is more."""
    sums = [sum(one.count for one in operations if one.kind is kind) for kind in _POINT_TO_POINT]
    return size_bytes(NcclOpKind.SEND, max(sums), operations[0].dtype, len(operations))


def _node(rank: int, group: Sequence[int], one: Operation, ran: Ran | None) -> OperationNode:
    size = size_bytes(one.kind, one.count, one.dtype, len(group))
    told: dict[str, Value] = {"pg_name": str(one.group), "comm_size": size}
    told |= {"dtype": DATA_TYPES[one.dtype]}
    name = "nccl" + one.kind.name.title().replace("_", "")
    if one.kind in _POINT_TO_POINT:
        is_send = one.kind is NcclOpKind.SEND
        ends = (rank, group[one.peer]) if is_send else (group[one.peer], rank)
        told |= {"comm_src": ends[0], "comm_dst": ends[1], "comm_tag": one.sequence}
        return OperationNode(name, COMM_SEND_NODE if is_send else COMM_RECV_NODE, ran, told)
    told["comm_type"] = COLLECTIVES[one.kind]
    if one.kind in _ROOTED:
        told["root"] = group[one.peer]
    if one.kind in _REDUCING and one.reduction:
        told["reduction"] = one.reduction
    return OperationNode(name, COMM_COLL_NODE, ran, told)


def _is_exchange(
    rank: int, members: Mapping[int, Sequence[int]], operations: Sequence[Operation]
) -> bool:
    if any(one.kind not in _POINT_TO_POINT for one in operations):
        return False
    if len({(one.group, one.dtype) for one in operations}) != 1:
        return False
    keys = [(one.kind, one.peer) for one in operations]
    if len(set(keys)) < len(keys):
        return False
    group = members[operations[0].group]
    sends = {peer for kind, peer in keys if kind is NcclOpKind.SEND}
    receives = {peer for kind, peer in keys if kind is NcclOpKind.RECV}
    if rank in group and group.index(rank) in sends & receives:
        return True
    return sends == receives and len(group) >= _LEAST_PEERS and len(sends) == len(group) - 1


def _exchange(
    group: Sequence[int], operations: Sequence[Operation], ran: Sequence[Ran | None]
) -> OperationNode:
    """Splits are in elements, by place in the group."""
    first = operations[0]
    splits = {kind: [0] * len(group) for kind in _POINT_TO_POINT}
    empty: dict[NcclOpKind, list[int]] = {kind: [] for kind in _POINT_TO_POINT}
    for one in operations:
        splits[one.kind][one.peer] = one.count
        if not one.count:
            empty[one.kind].append(one.peer)
    sends, receives = splits[NcclOpKind.SEND], splits[NcclOpKind.RECV]
    told: dict[str, Value] = {
        "pg_name": str(first.group),
        "comm_type": ALL_TO_ALL,
        "comm_size": _exchanged_bytes(operations),
        "dtype": DATA_TYPES[first.dtype],
        "in_split_size": sends,
        "out_split_size": receives,
    }
    named = zip((EMPTY_SENDS, EMPTY_RECEIVES), _POINT_TO_POINT, strict=True)
    told |= {name: empty[kind] for name, kind in named if empty[kind]}
    last = max((one for one in ran if one is not None), key=lambda one: one.end_ns, default=None)
    return OperationNode("ncclAllToAllv", COMM_COLL_NODE, last, told)
