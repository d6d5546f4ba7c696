"""A rank that an execution trace plays (Chakra's, docs/traces.md).

The host does its nodes one after the other; each takes as long as the trace says, after what it
depends on. Work of a device begins once the host has come to it and what it depends on is done:
that of its own stream by the stream's order, that of others by events. How long communication takes
is not taken from the trace, nor are kernels whose work the trace describes.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sim_server.chakra.execution_trace_pb2 import (
    ALL_TO_ALL,
    COMM_RECV_NODE,
    COMM_SEND_NODE,
    REDUCE_SCATTER_BLOCK,
)
from sim_server.chakra.graph import Step
from sim_server.chakra.operations import (
    DATA_TYPES,
    EMPTY_RECEIVES,
    EMPTY_SENDS,
    KINDS,
    count_of,
)
from sim_server.files.schema import Fault
from sim_server.records import (
    CopyFlags,
    CopyKind,
    MarkerKind,
    NcclOpKind,
    RecordKind,
    StreamFlags,
    WaitKind,
)
from sim_server.records.communicators import FOLDED_COMMUNICATOR
from sim_server.records.writer import announcement, record, signature, wait
from sim_server.sources.synthetic import Steps

_FIRST_STREAM = 1
_ADDED_GROUPS = 1 << 40
"""Unique ids of the communicators that no node makes lie here."""
_BYTE = DATA_TYPES.index("int8")
_BARRIER_KINDS = {9: NcclOpKind.ALL_REDUCE, REDUCE_SCATTER_BLOCK: NcclOpKind.REDUCE_SCATTER}
_MAKING = ("ncclCommInitRank", "ncclCommSplit")


@dataclass
class TracedProgram:
    """What a rank's trace says. `groups`: the ranks of each process group, in order."""

    rank: int
    steps: Sequence[Step]
    groups: Mapping[str, Sequence[int]]
    works: Mapping[int, Mapping[str, Any]]
    """By node, the signature of a kernel."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Unique ids of groups, the same for all ranks."""
    is_folded: bool = False
    """Members of groups may be absent, so a rank says who they are."""

    def play(self) -> Steps:
        """The records. Raises: Fault for a node that cannot be simulated."""
        return _Play(self).steps()


class _Play:
    """Where a rank is in its trace."""

    def __init__(self, program: TracedProgram) -> None:
        self._program = program
        self._streams: dict[tuple[int, str], int] = {}
        self._signatures: dict[str, int] = {}
        self._communicators: dict[str, int] = {}
        self._sequences: Counter[tuple[str, str, int]] = Counter()
        self._of: dict[int, tuple[int, int]] = {}
        """Device and stream of each node of a device."""
        self._instances: dict[int, int] = {}
        """Events, by the node that they are recorded after."""
        self._gap_ns = 0
        self._out: list[bytes] = []
        self._launched = _launched(program.steps)
        self._observed = _observed(program.steps)

    def steps(self) -> Steps:
        """See `Steps`."""
        yield from self._make_groups()
        done: set[int] = set()
        for step in self._program.steps:
            if step.id in done:
                continue
            if step.is_host:
                yield from self._on_host(step)
            else:
                together = self._launched.get(step.id, [step])
                done.update(one.id for one in together)
                self._on_device(together)
        self._emit(RecordKind.EXIT, status=0)
        return self._flush()

    # The host

    def _on_host(self, step: Step) -> Steps:
        for before in step.after:
            if (instance := self._instances.get(before)) is not None:
                yield self._flush(wait(WaitKind.EVENT, instance=instance, host_gap_ns=self._gap()))
        if step.node.name in _MAKING and "pg_name" in step.attributes:
            yield from self._join(step)
            return b""
        self._gap_ns += _duration_ns(step)
        mark = step.number("mark", 0)
        if mark in list(MarkerKind):
            name = step.text("mark_name").encode()
            gap_ns = self._gap()
            self._out.append(announcement(RecordKind.MARKER, name, id=mark, host_gap_ns=gap_ns))
        return b""

    def _join(self, step: Step) -> Steps:
        group = step.text("pg_name")
        if "split_of" in step.attributes:
            parent = self._communicator(step.text("split_of"))
            self._tell_group(group, parent, step.number("split_index"))
            made = wait(
                WaitKind.COMM_SPLIT,
                parent=parent,
                color=step.number("color"),
                key=step.number("key"),
                index=step.number("split_index"),
                host_gap_ns=self._gap(),
            )
        else:
            made = self._meet(group)
        reply = yield self._flush(made)
        assert reply is not None, "a wait is answered"
        self._communicators[group] = reply.value & ~FOLDED_COMMUNICATOR
        return b""

    def _make_groups(self) -> Steps:
        """Those that no node makes are there before anything else."""
        made = {
            step.text("pg_name")
            for step in self._program.steps
            if step.is_host and step.node.name in _MAKING
        }
        used = {step.text("pg_name") for step in self._program.steps if step.is_communication}
        for group in used:
            self._ranks(group)
        for group in sorted(used - made, key=lambda one: self._program.numbers[one]):
            reply = yield self._flush(self._meet(group))
            assert reply is not None, "a wait is answered"
            self._communicators[group] = reply.value & ~FOLDED_COMMUNICATOR
        return b""

    def _meet(self, group: str) -> bytes:
        ranks = self._ranks(group)
        unique_id = _ADDED_GROUPS + self._program.numbers[group]
        self._tell_group(group, unique_id)
        return wait(
            WaitKind.COMM_INIT,
            unique_id=unique_id,
            size=len(ranks),
            position=ranks.index(self._program.rank),
            host_gap_ns=self._gap(),
        )

    def _tell_group(self, group: str, *meeting: int) -> None:
        if self._program.is_folded and group in self._program.groups:
            ranks = list(self._ranks(group))
            told = {"kind": "group", "meeting": [str(one) for one in meeting], "ranks": ranks}
            self._out.append(announcement(RecordKind.STATISTICS, json.dumps(told).encode()))

    def _ranks(self, group: str) -> Sequence[int]:
        ranks = self._program.groups.get(group)
        if ranks is None or self._program.rank not in ranks:
            raise Fault(f"nothing says which ranks the process group {group!r} has")
        return ranks

    def _communicator(self, group: str) -> int:
        number = self._communicators.get(group)
        if number is None:
            raise Fault(f"the process group {group!r} is used before it is made")
        return number

    # Devices

    def _on_device(self, together: Sequence[Step]) -> None:
        first = together[0]
        device, stream = self._stream(first)
        for before in sorted({one for step in together for one in step.after}):
            where = self._of.get(before)
            if where is not None and where != (device, stream):
                self._emit(
                    RecordKind.STREAM_WAIT,
                    device=device,
                    stream=stream,
                    instance=self._instances[before],
                )
        if first.is_communication:
            self._communicate(together, device, stream)
        else:
            self._work(first, device, stream)
        for step in together:
            self._of[step.id] = (device, stream)
            if step.id in self._observed:
                instance = self._instances[step.id] = len(self._instances) + 1
                self._emit(RecordKind.EVENT_RECORD, device=device, stream=stream, instance=instance)

    def _stream(self, step: Step) -> tuple[int, int]:
        """Without a stream of its own in the trace, communication has one for each group."""
        device = step.number("device", 0)
        name = str(step.attributes.get("stream", f"of group {step.text('pg_name')}"))
        stream = self._streams.get((device, name))
        if stream is None:
            stream = self._streams[device, name] = len(self._streams) + _FIRST_STREAM
            flags = int(StreamFlags.NON_BLOCKING)
            self._emit(RecordKind.STREAM_CREATE, device=device, stream=stream, flags=flags)
        return device, stream

    def _work(self, step: Step, device: int, stream: int) -> None:
        where = {"device": device, "stream": stream}
        if "host_function" in step.attributes:
            self._emit(RecordKind.HOST_FUNCTION, **where)
        elif "fill_bytes" in step.attributes:
            self._emit(RecordKind.FILL, bytes=step.number("fill_bytes"), **where)
        elif "copy" in step.attributes:
            kind = step.text("copy").upper()
            if kind not in CopyKind.__members__:
                raise Fault(f"node {step.id} copies {kind!r}, which is no direction")
            flags = int(CopyFlags.PAGEABLE) if step.attributes.get("pageable") else 0
            size = step.number("copy_bytes")
            self._emit(RecordKind.COPY, id=CopyKind[kind], bytes=size, flags=flags, **where)
        else:
            number = self._signature(self._program.works[step.id])
            self._emit(RecordKind.KERNEL, id=number, **where)

    def _signature(self, work: Mapping[str, Any]) -> int:
        key = repr(sorted(work.items()))
        number = self._signatures.get(key)
        if number is None:
            number = self._signatures[key] = len(self._signatures) + 1
            self._out.append(signature(number, work))
        return number

    def _communicate(self, together: Sequence[Step], device: int, stream: int) -> None:
        operations = [one for step in together for one in self._operations(step)]
        group = self._communicator(together[0].text("pg_name"))
        self._emit(
            RecordKind.NCCL_LAUNCH,
            device=device,
            stream=stream,
            id=group,
            operations=len(operations),
        )
        self._out.extend(operations)

    def _operations(self, step: Step) -> Iterator[bytes]:
        group = step.text("pg_name")
        ranks = self._ranks(group)
        dtype = self._dtype(step)
        if step.node.type in (COMM_SEND_NODE, COMM_RECV_NODE):
            is_send = step.node.type == COMM_SEND_NODE
            peer = step.number("comm_dst" if is_send else "comm_src")
            if peer not in ranks:
                raise Fault(f"node {step.id}: rank {peer} is not in process group {group!r}")
            kind = NcclOpKind.SEND if is_send else NcclOpKind.RECV
            count = count_of(kind, step.number("comm_size"), dtype, len(ranks))
            yield self._operation(group, kind, count, dtype, peer=ranks.index(peer))
            return
        number = step.number("comm_type")
        if number == ALL_TO_ALL and "in_split_size" in step.attributes:
            yield from self._exchange(step, group, dtype)
            return
        known = KINDS.get(number, _BARRIER_KINDS.get(number))
        if known is None:
            raise Fault(f"node {step.id} is a collective of unknown kind {number}")
        count = count_of(known, step.number("comm_size"), dtype, len(ranks))
        root = step.number("root", ranks[0])
        if root not in ranks:
            raise Fault(f"node {step.id}: the root {root} is not in process group {group!r}")
        reduction = step.number("reduction", 0)
        yield self._operation(
            group, known, count, dtype, peer=ranks.index(root), reduction=reduction
        )

    def _exchange(self, step: Step, group: str, dtype: int) -> Iterator[bytes]:
        """NCCL has none with splits: a send and a receive for each other rank."""
        sends, receives = step.numbers("in_split_size"), step.numbers("out_split_size")
        size = len(self._ranks(group))
        if len(sends) != size or len(receives) != size:
            raise Fault(f"node {step.id} has not a split for each of the {size} ranks of {group!r}")
        empty_sends, empty_receives = (
            step.numbers(name) if name in step.attributes else []
            for name in (EMPTY_SENDS, EMPTY_RECEIVES)
        )
        for peer, (sent, received) in enumerate(zip(sends, receives, strict=True)):
            if sent or peer in empty_sends:
                yield self._operation(group, NcclOpKind.SEND, sent, dtype, peer=peer)
            if received or peer in empty_receives:
                yield self._operation(group, NcclOpKind.RECV, received, dtype, peer=peer)

    def _operation(
        self, group: str, kind: NcclOpKind, count: int, dtype: int, *, peer: int, reduction: int = 0
    ) -> bytes:
        is_pair = kind in (NcclOpKind.SEND, NcclOpKind.RECV)
        key = (group, kind.name if is_pair else "", peer if is_pair else 0)
        sequence = self._sequences[key]
        self._sequences[key] += 1
        return record(
            RecordKind.NCCL_OP,
            id=self._communicator(group),
            flags=int(kind),
            count=count,
            dtype=dtype,
            reduction=reduction,
            root=peer,
            sequence=sequence,
        )

    def _dtype(self, step: Step) -> int:
        """Bytes, where the trace does not say."""
        name = step.text("dtype")
        if not name:
            return _BYTE
        if name not in DATA_TYPES:
            raise Fault(f"node {step.id} has the unknown data type {name!r}")
        return DATA_TYPES.index(name)

    # Records

    def _emit(self, kind: RecordKind, **fields: int) -> None:
        self._out.append(record(kind, host_gap_ns=self._gap(), **fields))

    def _gap(self) -> int:
        gap_ns, self._gap_ns = self._gap_ns, 0
        return gap_ns

    def _flush(self, last: bytes = b"") -> bytes:
        cells = b"".join([*self._out, last])
        self._out.clear()
        return cells


def _duration_ns(step: Step) -> int:
    exact = step.number("duration_ns", -1)
    return exact if exact >= 0 else 1000 * int(step.node.duration_micros)


def _launched(steps: Sequence[Step]) -> dict[int, list[Step]]:
    """By each of its nodes, the launch of several operations at once."""
    launches: defaultdict[int, list[Step]] = defaultdict(list)
    for step in steps:
        if step.is_communication and "launch" in step.attributes:
            launches[step.number("launch")].append(step)
    return {step.id: together for together in launches.values() for step in together}


def _observed(steps: Sequence[Step]) -> set[int]:
    """Nodes of devices that the host waits for, or another stream."""
    streams = {
        step.id: (step.number("device", 0), step.attributes.get("stream", step.text("pg_name")))
        for step in steps
        if not step.is_host
    }
    return {
        before
        for step in steps
        for before in step.after
        if before in streams and streams.get(step.id) != streams[before]
    }
