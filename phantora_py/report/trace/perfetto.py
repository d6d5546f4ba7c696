"""A trace in Perfetto's own binary format: packets of track events.

The format: `protos/perfetto/trace` of Perfetto, whose classes the package `perfetto` has. Names are
interned: told once, then referred to by number. A message is made once for each label and filled
in anew for each slice, which is three times as fast as a new one.
"""

from __future__ import annotations

import importlib
import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from google.protobuf.runtime_version import VersionError

from phantora_py.data import RunData
from phantora_py.report.trace.events import (
    BYTES_IN_USE,
    Count,
    Counter,
    Item,
    Process,
    Slice,
    Thread,
)
from phantora_py.report.trace.names import Label, origin_of
from sim_server.errors import UsageError

_MODULE = "perfetto.protos.perfetto.trace.perfetto_trace_pb2"
# All packets are of one sequence, so that all share the interned names.
_SEQUENCE = 1
_WAITED = "waited for the last rank (us)"


def require_perfetto() -> Any:
    """Perfetto's messages. Raises: UsageError if the package that has them is missing, or does not
    go with the installed protobuf.
    """
    try:
        return importlib.import_module(_MODULE)
    except ImportError as error:
        raise UsageError(
            "A trace in Perfetto's format needs the Python package perfetto, which is missing or "
            "older than 0.59: pip install 'phantora[perfetto]'"
        ) from error
    except VersionError as error:
        raise UsageError(
            "A trace in Perfetto's format needs the Python package perfetto, which does not go "
            f"with the installed protobuf: {error} To install what does: pip install "
            "'phantora[perfetto]'"
        ) from error


@dataclass(frozen=True)
class _Packets:
    """Packets to be filled in and written again and again: of an instant, a counter, or of a begin
    and an end.
    """

    trace: Any
    first: Any
    event: Any
    """Of the first."""
    end: Any = None


class PerfettoWriter:
    """Writes the items of a trace, each as it comes."""

    def __init__(self, file: BinaryIO, data: RunData) -> None:
        self._file = file
        self._data = data
        self._messages = require_perfetto()
        self._uuids = itertools.count(1)
        self._tracks: dict[Process | Thread | Counter, int] = {}
        self._interned: dict[str, dict[str, int]] = {}
        self._packets: dict[Label, _Packets] = {}
        self._counts = self._make(self._messages.TrackEvent.TYPE_COUNTER)

    def write(self, items: Iterable[Item]) -> None:
        """Write all of a trace."""
        descriptor = self._messages.TrackDescriptor
        # Without this `sibling_order_rank` is of no effect on processes and threads.
        self._describe(
            uuid=0,
            process_ordering=descriptor.PROCESS_ORDERING_EXPLICIT,
            thread_ordering=descriptor.THREAD_ORDERING_EXPLICIT,
        )
        for item in items:
            if isinstance(item, Slice):
                self._write_slice(item)
            elif isinstance(item, Count):
                self._write_count(item)
            elif isinstance(item, Thread):
                self._describe_thread(item)
            else:
                self._describe_process(item)

    def _write_slice(self, one: Slice) -> None:
        packets = self._packets.get(one.label)
        if packets is None:
            packets = self._packets[one.label] = self._make_slice(one.label)
        event, end = packets.event, packets.end
        event.track_uuid = track = self._tracks[one.thread]
        packets.first.timestamp = one.begin_ns
        if end is not None:
            end.track_event.track_uuid = track
            end.timestamp = one.end_ns
        if one.correlation is not None:
            flows = event.flow_ids if one.label.is_call else event.terminating_flow_ids
            flows[:] = (2 * one.correlation + 1,)
        if one.operation is not None:
            event.flow_ids[:] = (2 * one.operation,)
        if one.waited_ns is not None:
            event.debug_annotations[-1].double_value = one.waited_ns / 1e3
        self._file.write(packets.trace.SerializeToString())

    def _write_count(self, one: Count) -> None:
        packets = self._counts
        event = packets.event
        event.track_uuid = self._tracks.get(one.counter) or self._describe_counter(one.counter)
        # One replaces the other.
        if isinstance(one.value, int):
            event.counter_value = one.value
        else:
            event.double_counter_value = one.value
        packets.first.timestamp = one.time_ns
        self._file.write(packets.trace.SerializeToString())

    def _make_slice(self, label: Label) -> _Packets:
        """Tells the names that are new, too. A call takes no time: it has no end."""
        types = self._messages.TrackEvent
        packets = self._make(types.TYPE_INSTANT if label.is_call else types.TYPE_SLICE_BEGIN)
        if not label.is_call:
            end = packets.trace.packet.add(trusted_packet_sequence_id=_SEQUENCE)
            end.track_event.type = types.TYPE_SLICE_END
            packets = replace(packets, end=end)
        packets.first.sequence_flags = self._messages.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        news = self._messages.Trace()
        interned = news.packet.add(trusted_packet_sequence_id=_SEQUENCE).interned_data
        event = packets.event
        event.name_iid = self._intern(interned, "event_names", label.name)
        event.category_iids.append(self._intern(interned, "event_categories", label.category))
        names, texts = "debug_annotation_names", "debug_annotation_string_values"
        for name, value in label.arguments.items():
            annotation = event.debug_annotations.add(name_iid=self._intern(interned, names, name))
            if isinstance(value, int):
                annotation.int_value = value
            else:
                annotation.string_value_iid = self._intern(interned, texts, str(value))
        if label.is_communication:
            event.debug_annotations.add(name_iid=self._intern(interned, names, _WAITED))
        self._file.write(news.SerializeToString())
        return packets

    def _make(self, kind: int) -> _Packets:
        trace = self._messages.Trace()
        packet = trace.packet.add(trusted_packet_sequence_id=_SEQUENCE)
        packet.track_event.type = kind
        return _Packets(trace, packet, packet.track_event)

    def _intern(self, interned: Any, kind: str, text: str) -> int:
        known = self._interned.setdefault(kind, {})
        number = known.get(text)
        if number is None:
            number = known[text] = len(known) + 1
            entry = getattr(interned, kind).add(iid=number)
            if kind == "debug_annotation_string_values":
                entry.str = text.encode()
            else:
                entry.name = text
        return number

    def _describe_process(self, one: Process) -> None:
        is_run = one.number == self._data.ranks
        self._tracks[one] = self._describe(
            process={"pid": one.number, "process_name": one.name},
            sibling_order_rank=one.place,
            description=json.dumps(origin_of(self._data)) if is_run else None,
        )

    def _describe_thread(self, one: Thread) -> None:
        """Numbers of threads are unique in a trace, and that of a process is its main thread's."""
        track = next(self._uuids)
        tid = self._data.ranks + track
        self._tracks[one] = self._describe(
            track,
            thread={"pid": one.process.number, "tid": tid, "thread_name": one.name},
            parent_uuid=self._tracks[one.process],
            sibling_order_rank=track,
        )

    def _describe_counter(self, one: Counter) -> int:
        if one.quantity == BYTES_IN_USE:
            unit = {"unit": self._messages.CounterDescriptor.UNIT_SIZE_BYTES}
        else:
            unit = {"unit_name": one.quantity}
        parent = self._tracks[one.process]
        track = self._describe(name=one.name, counter=unit, parent_uuid=parent)
        self._tracks[one] = track
        return track

    def _describe(self, uuid: int | None = None, **fields: Any) -> int:
        if uuid is None:
            uuid = next(self._uuids)
        trace = self._messages.Trace()
        packet = trace.packet.add(trusted_packet_sequence_id=_SEQUENCE)
        packet.track_descriptor.CopyFrom(self._messages.TrackDescriptor(uuid=uuid, **fields))
        if uuid == 0:
            packet.sequence_flags = self._messages.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        self._file.write(trace.SerializeToString())
        return uuid
