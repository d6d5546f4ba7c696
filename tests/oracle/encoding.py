"""Calls of a host program as records, whose host time is filled in when they are delivered."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from calls import Call, Op, Stream
from engine_harness import cell
from machine import stated_signature

from sim_server.records import MarkerKind, MemoryKind, RecordKind, StreamFlags, WaitFlags, WaitKind
from sim_server.records.writer import announcement

PROGRAM_SLOT, OUTSIDE_SLOT = 0, 1
HELPER_SLOTS = range(2, 16)
# Of a new rank's slots (see host_programs.SLOTS), those that have to be created.
FIRST_STREAMS = (Stream(1, 0, True), Stream(2, 0, False), Stream(3, 0, False), Stream(5, 1, False))
WORK = {
    "create": RecordKind.STREAM_CREATE,
    "destroy": RecordKind.STREAM_DESTROY,
    "fill": RecordKind.FILL,
    "function": RecordKind.HOST_FUNCTION,
    "record": RecordKind.EVENT_RECORD,
    "follow": RecordKind.STREAM_WAIT,
}
CELL_BYTES = 64


def dated(record: bytes, gap_ns: int) -> bytes:
    """The first cell of a record, with the host time since the record before."""
    return record[:8] + struct.pack("<Q", gap_ns) + record[16:]


def outside_wait() -> bytes:
    """What a rank writes that comes back after it was set aside."""
    return cell(RecordKind.WAIT, 0, 0, 0, 0, OUTSIDE_SLOT, id=int(WaitKind.RESUME))


def helper_wait(kind: WaitKind, event: int, slot: int) -> bytes:
    """What a helper thread asks about an event."""
    flags = int(WaitFlags.BACKGROUND)
    return cell(RecordKind.WAIT, event, event, 0, 0, slot, id=int(kind), flags=flags)


@dataclass
class Encoder:
    """The records of one rank's calls; numbers its signatures."""

    signatures: dict[tuple[int, ...], int] = field(default_factory=dict)

    def cells(self, call: Call) -> list[bytes]:
        """The first starts a record at the call's time, the others follow at once."""
        whole = b"".join(self._records(call))
        return [whole[at : at + CELL_BYTES] for at in range(0, len(whole), CELL_BYTES)]

    def _records(self, call: Call) -> list[bytes]:
        on = {"stream": call.stream.identifier, "device": call.stream.device}
        if call.wait is not None:
            args = [*call.args, 0, 0, 0, 0][:4]
            return [cell(RecordKind.WAIT, *args, PROGRAM_SLOT, id=int(call.wait), **on)]
        if call.what == "kernel":
            return self._kernel(call, on)
        if call.what == "copy":
            kind, size_bytes, pageable = call.args
            return [cell(RecordKind.COPY, size_bytes, id=kind, flags=pageable, **on)]
        if call.what == "launch":
            ops = [_operation(op) for op in call.ops]
            return [cell(RecordKind.NCCL_LAUNCH, len(ops), **on), *ops]
        if call.what == "memory":
            return [self._memory(*call.args)]
        is_plain = call.what != "create" or call.stream.blocking
        flags = 0 if is_plain else int(StreamFlags.NON_BLOCKING)
        return [cell(WORK[call.what], *call.args, flags=flags, **on)]

    def _kernel(self, call: Call, on: dict[str, int]) -> list[bytes]:
        known = self.signatures.get(call.args)
        if known is not None:
            return [cell(RecordKind.KERNEL, id=known, **on)]
        number = self.signatures[call.args] = len(self.signatures) + 1
        payload = stated_signature(*call.args)
        return [
            announcement(RecordKind.SIGNATURE, payload, id=number),
            cell(RecordKind.KERNEL, id=number, **on),
        ]

    def _memory(self, kind: int, size_bytes: int) -> bytes:
        if kind == 0:
            args = (size_bytes, 0, size_bytes)
            return cell(RecordKind.ALLOC, *args, id=int(MemoryKind.DEVICE))
        if kind == 1:
            return cell(RecordKind.FREE, size_bytes, 0, 0, id=int(MemoryKind.DEVICE))
        if kind == 2:
            return cell(RecordKind.OUT_OF_MEMORY, size_bytes, 0, size_bytes)
        return announcement(RecordKind.MARKER, b"step", id=int(MarkerKind.OPTIMIZER_STEP))


def _operation(op: Op) -> bytes:
    args = (op.elements, 0, 0, op.peer, op.sequence)
    return cell(RecordKind.NCCL_OP, *args, id=op.comm, flags=int(op.kind))
