"""What each piece of a rank's work waited for: told by its record stream, timed by its spans.

A span says when work ran, a record which stream it was put into and which events that stream waits
for. The two are matched stream by stream, for a stream does one thing after the other. The rules of
ordering are those of csrc/engine/streams.h; of all that work waits for, what ends last counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from phantora_py.data import RunData
from sim_server.errors import UsageError
from sim_server.files.schema import Fault
from sim_server.log.history import (
    COMMUNICATION_SPAN,
    COPY_SPAN,
    FILL_SPAN,
    HOST_WAIT_SPAN,
    KERNEL_SPAN,
)
from sim_server.log.run_log import ANSWER
from sim_server.records import RECORD_TYPE, RecordKind, StreamFlags, WaitFlags, WaitKind
from sim_server.sources.recorded import records_in

_SPAN_OF = {
    RecordKind.KERNEL: KERNEL_SPAN,
    RecordKind.COPY: COPY_SPAN,
    RecordKind.FILL: FILL_SPAN,
    RecordKind.NCCL_LAUNCH: COMMUNICATION_SPAN,
}
_ORDERING = (
    *_SPAN_OF,
    RecordKind.STREAM_CREATE,
    RecordKind.EVENT_RECORD,
    RecordKind.STREAM_WAIT,
    RecordKind.WAIT,
)
# Those that leave a span.
_LASTING_WAITS = (
    WaitKind.STREAM,
    WaitKind.EVENT,
    WaitKind.DEVICE,
    WaitKind.LAUNCH_QUEUE,
    WaitKind.COMM_INIT,
    WaitKind.COMM_SPLIT,
)
NOTHING = -1


class _Tail(NamedTuple):
    """Of what a stream, an event or a host waits for, what ends last."""

    end_ns: int
    span: int


_IDLE = _Tail(-1, NOTHING)
_Stream = tuple[int, int]
"""Device and number; 0 is the legacy default stream."""


@dataclass
class RankOrder:
    """What a rank's spans waited for on its device. Indices are of `RunData.spans_of(rank)`."""

    spans: npt.NDArray[np.void]
    before: list[int]
    """Per span the span that it waited for longest, or NOTHING: for a host's wait, what it waited
    for."""
    waits: npt.NDArray[np.int64]
    """The host's waits that took time, in their order."""
    outside: list[tuple[int, int]]
    """When the rank waited for others outside the GPU, in order: from, to."""

    @cached_property
    def operations(self) -> dict[tuple[int, int | None], int]:
        """The span of each operation that the rank took part in, on each device, and on whichever
        it was (None)."""
        found: dict[tuple[int, int | None], int] = {}
        for index in np.flatnonzero(self.spans["kind"] == COMMUNICATION_SPAN).tolist():
            span = self.spans[index]
            for device in (int(span["device"]), None):
                found[int(span["id"]), device] = index
        return found


def rank_order(data: RunData, rank: int) -> RankOrder:
    """Reads the records of a rank, as far as its work has ended.

    Raises: UsageError if they are not those of its spans.
    """
    spans = data.spans_of(rank)
    walk = _Walk(spans)
    try:
        for record in _records(data, rank):
            walk.take(record)
    except Fault as fault:
        raise UsageError(f"{data.path} is damaged: rank {rank}: {fault}") from fault
    is_wait = (spans["kind"] == HOST_WAIT_SPAN) & (spans["end_ns"] > spans["start_ns"])
    waits = np.flatnonzero(is_wait)
    in_order = waits[np.argsort(spans["end_ns"][waits], kind="stable")]
    return RankOrder(spans, walk.before, in_order, list(outside_waits(data, rank)))


_Record = tuple[int, int, int, int, int, int]
"""Kind, flags, device, stream, id, first argument."""


def _records(data: RunData, rank: int) -> Iterator[_Record]:
    """The records that order anything."""
    cells = np.frombuffer(b"".join(data.records(rank)), np.uint8)
    cells = cells[: len(cells) // RECORD_TYPE.itemsize * RECORD_TYPE.itemsize].view(RECORD_TYPE)
    is_record, whole = records_in(cells)
    rows = cells[:whole][is_record[:whole]]
    rows = rows[np.isin(rows["kind"], _ORDERING)]
    fields = [rows[name].tolist() for name in ("kind", "flags", "device", "stream", "id")]
    yield from zip(*fields, rows["arg"][:, 0].tolist(), strict=True)


def outside_waits(data: RunData, rank: int) -> Iterator[tuple[int, int]]:
    """When the rank waited for others outside the GPU, in order: from, to."""
    for piece in data.answers(rank):
        for kind, _, _, asked_ns, time_ns in ANSWER.iter_unpack(piece):
            if kind == WaitKind.RESUME and time_ns > asked_ns:
                yield asked_ns, time_ns


@dataclass
class _Walk:
    """Follows a rank's records; `before` grows complete."""

    spans: npt.NDArray[np.void]
    before: list[int] = field(init=False)
    _ends_ns: list[int] = field(init=False)
    _kinds: list[int] = field(init=False)
    _queues: dict[_Stream, Iterator[int]] = field(init=False)
    _host_waits: dict[int, Iterator[int]] = field(init=False)
    _streams: dict[int, _Stream] = field(default_factory=dict)
    _tails: dict[_Stream, _Tail] = field(default_factory=dict)
    _blocking: dict[int, list[_Stream]] = field(default_factory=dict)
    _unordered: set[_Stream] = field(default_factory=set)
    _events: dict[int, _Tail] = field(default_factory=dict)

    def __post_init__(self) -> None:
        spans = self.spans
        self.before = [NOTHING] * len(spans)
        self._ends_ns, self._kinds = spans["end_ns"].tolist(), spans["kind"].tolist()
        in_order = np.lexsort([spans["end_ns"], spans["start_ns"]])
        queues: dict[_Stream, list[int]] = {}
        waits: dict[int, list[int]] = {}
        streams = list(zip(spans["device"].tolist(), spans["stream"].tolist(), strict=True))
        whats = spans["id"].tolist()
        for index in in_order.tolist():
            if self._kinds[index] == HOST_WAIT_SPAN:
                waits.setdefault(whats[index], []).append(index)
            else:
                queues.setdefault(streams[index], []).append(index)
        self._queues = {stream: iter(queue) for stream, queue in queues.items()}
        self._host_waits = {what: iter(queue) for what, queue in waits.items()}

    def take(self, record: _Record) -> None:
        """The next record."""
        kind, flags, device, number, what, value = record
        stream = self._streams.get(number, (device, number))
        if kind == RecordKind.STREAM_CREATE:
            stream = self._streams[number] = (device, number)
            if flags & StreamFlags.NON_BLOCKING:
                self._unordered.add(stream)
            else:
                self._blocking.setdefault(device, []).append(stream)
        elif kind == RecordKind.EVENT_RECORD:
            self._events[value] = self._tails[stream] = self._predecessor(stream)
        elif kind == RecordKind.STREAM_WAIT:
            awaited = self._events.get(value, _IDLE)
            self._tails[stream] = max(self._predecessor(stream), awaited)
        elif kind == RecordKind.WAIT:
            self._wait(flags, stream, what, value)
        else:
            self._work(stream, _SPAN_OF[RecordKind(kind)], self._count(kind, value))

    @staticmethod
    def _count(kind: int, value: int) -> int:
        """Spans of a record: an NCCL launch has one for each of its operations."""
        return value if kind == RecordKind.NCCL_LAUNCH else 1

    def _work(self, stream: _Stream, kind: int, count: int) -> None:
        before = self._predecessor(stream)
        latest = before
        for _ in range(count):
            index = next(self._queues.get(stream, iter(())), None)
            if index is None:  # it had not ended when the run did
                return
            if self._kinds[index] != kind:
                raise Fault("a span is not that of its record")
            self.before[index] = before.span
            latest = max(latest, _Tail(self._ends_ns[index], index))
        self._tails[stream] = latest

    def _wait(self, flags: int, stream: _Stream, what: int, value: int) -> None:
        if flags & WaitFlags.BACKGROUND or what not in _LASTING_WAITS:
            return
        index = next(self._host_waits.get(what, iter(())), None)
        if index is None:
            return
        if what == WaitKind.STREAM:
            awaited = self._work_of(stream)
        elif what in (WaitKind.EVENT, WaitKind.LAUNCH_QUEUE):
            awaited = self._events.get(value, _IDLE)
        elif what == WaitKind.DEVICE:
            on_device = [tail for (device, _), tail in self._tails.items() if device == stream[0]]
            awaited = max(on_device, default=_IDLE)
        else:
            awaited = _IDLE
        self.before[index] = awaited.span

    def _work_of(self, stream: _Stream) -> _Tail:
        """What a synchronisation with a stream waits for."""
        own = self._tails.get(stream, _IDLE)
        if stream[1] != 0:
            return own
        others = (self._tails.get(one, _IDLE) for one in self._blocking.get(stream[0], ()))
        return max([own, *others])

    def _predecessor(self, stream: _Stream) -> _Tail:
        """What the next item of a stream waits for."""
        own = self._work_of(stream)
        if stream[1] == 0 or stream in self._unordered:
            return own
        return max(own, self._tails.get((stream[0], 0), _IDLE))
