"""What a rank does, record by record, without what may differ between ranks that do the same.

Left out are questions after events and waits of streams for them, which depend on what helper
threads of PyTorch found out first, pinned memory, turns to act outside, and what only names things:
lines, signatures, statistics. Communicators and devices are numbered as the rank first uses them;
addresses, instances of events, reply slots, to whom a rank sends, and how many different rows its
data look up do not count.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from sim_server._engine import data_type_name
from sim_server.fold.words import clause
from sim_server.records import (
    CELL_BYTES,
    MarkerKind,
    MemoryKind,
    NcclOpKind,
    RecordKind,
    WaitFlags,
    WaitKind,
    payload_cells,
)
from sim_server.records.schema import LAYOUTS

_CELL = struct.Struct("<BBHIQII5Q")
assert _CELL.size == CELL_BYTES, "a cell is one record"
# Waits that another rank may have more or fewer of.
_TURNS = frozenset(
    {
        *(WaitKind.QUERY_STREAM, WaitKind.QUERY_EVENT, WaitKind.ELAPSED, WaitKind.ACTIVITIES),
        *(WaitKind.RESUME, WaitKind.OUTSIDE, WaitKind.ALARM, WaitKind.WITHDRAW),
        WaitKind.LAUNCH_QUEUE,
    }
)
_ASIDE = WaitFlags.BACKGROUND | WaitFlags.POLLED
_NAMES = frozenset({RecordKind.SIGNATURE, RecordKind.SITE, RecordKind.STATISTICS})
# Pinned memory that a loader's thread lets go is marked with an event, now or later.
_LUCK = frozenset(
    {
        *(RecordKind.EVENT_RECORD, RecordKind.STREAM_WAIT),
        *(RecordKind.COMM_DESTROY, RecordKind.UNSUPPORTED),
    }
)
# Each rank exchanges with others than itself.
_PAIRS = frozenset({NcclOpKind.SEND, NcclOpKind.RECV})
# In signatures.
_DATA = re.compile(r', "sizes": \{"distinct": \d+\}|(, )?"distinct": \d+')
_What = tuple[object, ...]


class Step(NamedTuple):
    """One record. `what` is equal where ranks do the same."""

    what: _What
    site: str
    """Where it was, or what came before it: " at LINE", " after LINE"; empty: not known."""
    ends_iteration: bool = False
    host_ns: int = 0
    """Host time since the step before, that of records which are left out among it."""

    def __str__(self) -> str:
        return clause(self.what) + self.site


class _Record(NamedTuple):
    """See RECORD_TYPE."""

    kind: int
    flags: int
    device: int
    stream: int
    gap_ns: int
    id: int
    site: int
    args: tuple[int, ...]
    payload: str

    @property
    def place(self) -> str:
        """Where work goes."""
        where = f"stream {self.stream}"
        return f"{where} of device {self.device}" if self.device else where


class StepReader:
    """The steps of one rank, from its first optimizer step on."""

    def __init__(self) -> None:
        self._texts: dict[tuple[int, int], str] = {}
        """Lines and signatures, by kind of record and number."""
        self._communicators: dict[int, int] = {}
        self._devices: dict[int, int] = {}
        self._line = ""
        """The last one that is known."""
        self._has_begun = False
        self._host_ns = 0
        """Of records since the last step."""
        self._said: dict[int, Callable[[_Record], _What]] = {
            RecordKind.KERNEL: lambda one: (
                *("kernel", self._texts.get((RecordKind.SIGNATURE, one.id), "?"), one.place),
            ),
            RecordKind.NCCL_LAUNCH: lambda one: (
                *("nccl_launch", self._own(one.id), one.args[0], one.place),
            ),
            RecordKind.NCCL_OP: lambda one: (
                *("nccl_op", NcclOpKind(one.flags).name.lower(), self._own(one.id), one.args[0]),
                *(data_type_name(one.args[1]), one.args[2]),
                0 if one.flags in _PAIRS else one.args[3],
            ),
        }

    def read(self, cells: bytes) -> Iterator[Step]:
        """The steps of whole records."""
        position = 0
        while position < len(cells):
            *fields, a, b, c, d, e = _CELL.unpack_from(cells, position)
            position += CELL_BYTES
            payload = ""
            if RecordKind(fields[0]).has_payload:
                payload = cells[position : position + a].decode(errors="replace")
                position += payload_cells(a) * CELL_BYTES
            one = _Record._make([*fields, (a, b, c, d, e), payload])
            self._host_ns += one.gap_ns
            if one.kind in _NAMES:
                self._texts[one.kind, one.id] = _DATA.sub("", payload)
                continue
            ends = one.kind == RecordKind.MARKER and one.id == MarkerKind.OPTIMIZER_STEP
            if ends and not self._has_begun:
                self._has_begun, self._host_ns = True, 0
            if self._has_begun and not _may_lack(one):
                kind = RecordKind(one.kind)
                if LAYOUTS[kind].on_stream:
                    device = self._devices.setdefault(one.device, len(self._devices))
                    one = one._replace(device=device)
                what = self._said.get(kind) or _SAID.get(kind, _plain)
                host_ns, self._host_ns = self._host_ns, 0
                yield Step(what(one), self._where(one), ends, host_ns)
            self._line = self._texts.get((RecordKind.SITE, one.site), self._line)

    def _where(self, one: _Record) -> str:
        line = self._texts.get((RecordKind.SITE, one.site))
        if line is not None:
            return f" at {line}"
        return f" after {self._line}" if self._line else ""

    def _own(self, communicator: int) -> str:
        """Its number among those that the rank has used."""
        number = self._communicators.setdefault(communicator, len(self._communicators))
        return f"communicator {number}"


def _plain(one: _Record) -> _What:
    return (RecordKind(one.kind).name.lower(), one.place)


_SAID: Final[Mapping[int, Callable[[_Record], _What]]] = {
    RecordKind.WAIT: lambda one: ("wait", WaitKind(one.id).name.lower(), f"stream {one.stream}"),
    RecordKind.COPY: lambda one: ("copy", one.id, one.flags, one.args[0], one.place),
    RecordKind.FILL: lambda one: ("fill", one.args[0], one.place),
    RecordKind.MARKER: lambda one: ("marker", MarkerKind(one.id).name.lower(), one.payload),
    RecordKind.ALLOC: lambda one: ("alloc", one.args[0]),
    RecordKind.FREE: lambda one: ("free", one.args[0]),
    RecordKind.EXIT: lambda one: ("exit", one.args[0]),
    RecordKind.SYNTHETIC_READ: lambda one: ("synthetic_read", one.args[0]),
}


def _may_lack(one: _Record) -> bool:
    """Whether another rank that does the same may be without it."""
    if one.kind == RecordKind.WAIT:
        return bool(one.flags & _ASIDE) or one.id in _TURNS
    if one.kind in {RecordKind.ALLOC, RecordKind.FREE}:
        return one.id == MemoryKind.PINNED_HOST
    return one.kind in _LUCK
