"""What every rank's device does in one iteration, in columns that a page can hold.

A track is a row of the picture: what the device does as a whole (as in breakdown.py), each stream,
the waits of the host. Ranks that do the same at the same times share their tracks' columns, which
is most ranks of most runs. Where there are still too many spans, short ones are merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from phantora_py.data import RunData
from phantora_py.report.breakdown import gpu_covers
from phantora_py.report.communication import Layouts
from phantora_py.report.critical_path import Cause, Step
from phantora_py.report.gpus import RunGpu, devices_of
from phantora_py.report.window import Window
from phantora_py.text.units import duration_text, size_text
from sim_server.log.history import (
    COMMUNICATION_SPAN,
    COPY_SPAN,
    FILL_SPAN,
    HOST_WAIT_SPAN,
    KERNEL_SPAN,
)
from sim_server.records import CopyKind, WaitKind

MOST_SPANS = 400_000
"""In the columns: twelve bytes each, so that a page stays well below 10 MB."""


class Category(IntEnum):
    """What a span is drawn as."""

    COMPUTE = 0
    COMMUNICATION = 1
    WAITING = 2
    """For the last rank to arrive at an operation."""
    COPY = 3
    HOST = 4
    """The device is empty because of its host; or, in the host's own track, the host waits."""


@dataclass(frozen=True)
class Name:
    """What a span is called. `note`: class and tier, or communicator and Python line."""

    category: Category
    text: str
    note: str


@dataclass(frozen=True)
class Columns:
    """Spans of a track, in the order in which they start. Units: ns since the window's begin."""

    starts_ns: npt.NDArray[np.int64]
    ends_ns: npt.NDArray[np.int64]
    names: npt.NDArray[np.int64]
    """Indexes of `Timeline.names`."""

    def __len__(self) -> int:
        return len(self.names)

    def key(self) -> bytes:
        """Equal columns have equal keys."""
        return np.stack([self.starts_ns, self.ends_ns, self.names]).tobytes()


@dataclass(frozen=True)
class Track:
    """A row of the picture. `columns`: index of `Timeline.columns`."""

    label: str
    columns: int


@dataclass(frozen=True)
class Timeline:
    """One iteration, or the whole run. `tracks`: by rank, its GPUs as a whole first."""

    window: Window
    names: list[Name]
    columns: list[Columns]
    tracks: list[list[Track]]
    path: Track
    """The critical path."""
    merged_below_ns: int
    """Spans shorter than this were merged with their neighbours; 0: all are there."""


def make_timeline(
    data: RunData, window: Window, path: Sequence[Step] = (), most_spans: int = MOST_SPANS
) -> Timeline:
    """The timeline of a stretch of time, `path` through it."""
    builder = _Builder(data, window)
    path_track = builder.path(path)
    told = set(data.told.ranks)
    tracks = [list(builder.tracks(rank)) if rank in told else [] for rank in range(data.ranks)]
    names, columns, merged_below_ns = builder.names, list(builder.columns.values()), 0
    while sum(map(len, columns)) > most_spans and merged_below_ns < window.end_ns:
        merged_below_ns = 2 * merged_below_ns or 1_000
        names = builder.names + _merged_names(merged_below_ns)
        whole = builder.columns.values()
        columns = [_merge(one, builder.names, merged_below_ns) for one in whole]
    return Timeline(window, names, columns, tracks, path_track, merged_below_ns)


class _Builder:
    """Names and columns, each once."""

    def __init__(self, data: RunData, window: Window) -> None:
        self._data = data
        self._window = window
        self._layouts = Layouts(data)
        self._moves_ns = np.array([one["moves_ns"] for one in data.operations], np.int64)
        self._indexes: dict[Name, int] = {}
        self._by_span: dict[tuple[int, int, bool], int] = {}
        self.columns: dict[bytes, Columns] = {}
        self._numbers: dict[bytes, int] = {}

    @property
    def names(self) -> list[Name]:
        """By index."""
        return list(self._indexes)

    def tracks(self, rank: int) -> Iterator[Track]:
        """The tracks of a rank."""
        devices = devices_of(self._data, rank)
        if len(devices) < 2:
            yield Track("device", self._number(self._states(RunGpu(rank, None))))
        else:
            for device in devices:
                states = self._states(RunGpu(rank, device))
                yield Track(f"GPU {device}", self._number(states))
        spans = self._visible(self._data.spans_of(rank))
        is_wait = spans["kind"] == HOST_WAIT_SPAN
        streams = np.unique(spans[~is_wait][["device", "stream"]]).tolist()
        for device, stream in streams:
            here = spans[~is_wait & (spans["device"] == device) & (spans["stream"] == stream)]
            label = f"GPU {device} stream {stream}" if len(devices) > 1 else f"stream {stream}"
            yield Track(label, self._number(self._columns(here)))
        if is_wait.any():
            yield Track("host waits", self._number(self._columns(spans[is_wait])))

    def path(self, steps: Sequence[Step]) -> Track:
        """The critical path; its names say on which rank it is."""
        begins_ns = np.array([step.begin_ns for step in steps], np.int64)
        ends_ns = np.array([step.end_ns for step in steps], np.int64)
        names = np.array([self._index(self._describe_step(step)) for step in steps], np.int64)
        return Track("critical path", self._number(self._clipped(begins_ns, ends_ns, names)))

    def _describe_step(self, step: Step) -> Name:
        rank = f"rank {step.rank}"
        if step.cause is Cause.HOST:
            return Name(Category.HOST, "the host", rank)
        if step.cause is Cause.WAITING:
            return Name(Category.WAITING, "waiting", rank)
        span = self._data.spans_of(step.rank)[step.span]
        name = self._describe(int(span["kind"]), int(span["id"]), False)
        return Name(name.category, name.text, ", ".join(filter(None, (name.note, rank))))

    def _visible(self, spans: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        begin_ns, end_ns = self._window.begin_ns, self._window.end_ns
        overlaps = (spans["end_ns"] > begin_ns) & (spans["start_ns"] < end_ns)
        return np.asarray(spans[overlaps & (spans["end_ns"] > spans["start_ns"])])

    def _number(self, columns: Columns) -> int:
        key = columns.key()
        number = self._numbers.setdefault(key, len(self._numbers))
        self.columns.setdefault(key, columns)
        return number

    def _index(self, name: Name) -> int:
        return self._indexes.setdefault(name, len(self._indexes))

    def _states(self, gpu: RunGpu) -> Columns:
        """What a GPU as a whole does, as the breakdown of the iteration counts it."""
        covers = gpu_covers(self._data, gpu)
        window = self._window
        borders = [
            one
            for cover in (covers.compute, covers.used, covers.busy, covers.host)
            for one in (cover.starts_ns, cover.ends_ns)
        ]
        edges = np.unique(np.clip(np.concatenate(borders), window.begin_ns, window.end_ns))
        starts_ns, ends_ns = edges[:-1], edges[1:]
        states = np.select(
            [
                cover.covers(starts_ns)
                for cover in (covers.compute, covers.used, covers.busy, covers.host)
            ],
            [
                self._index(Name(Category.COMPUTE, "compute", "")),
                self._index(Name(Category.COMMUNICATION, "exposed communication", "")),
                self._index(Name(Category.WAITING, "waiting for ranks", "")),
                self._index(Name(Category.HOST, "waits for its host", "")),
            ],
            -1,
        )
        first = np.flatnonzero(np.diff(states, prepend=-2))
        last = np.append(first[1:], len(states)) - 1
        kept = states[first] >= 0 if len(first) else first.astype(np.bool_)
        first, last = first[kept], last[kept]
        return self._clipped(starts_ns[first], ends_ns[last], states[first])

    def _columns(self, spans: npt.NDArray[np.void]) -> Columns:
        """Spans of a track; communication is two: until the last rank has arrived, and after."""
        starts_ns, ends_ns = spans["start_ns"].copy(), spans["end_ns"]
        names = self._names(spans, is_waiting=False)
        communicates = np.flatnonzero(spans["kind"] == COMMUNICATION_SPAN)
        moves_ns = np.minimum(self._moves_ns[spans["id"][communicates]], ends_ns[communicates])
        waits = communicates[moves_ns > starts_ns[communicates]]
        waited = (starts_ns[waits], moves_ns[moves_ns > starts_ns[communicates]])
        waiting_names = self._names(spans[waits], is_waiting=True)
        starts_ns[communicates] = np.maximum(starts_ns[communicates], moves_ns)
        return self._clipped(
            np.concatenate([starts_ns, waited[0]]),
            np.concatenate([ends_ns, waited[1]]),
            np.concatenate([names, waiting_names]),
        )

    def _clipped(
        self,
        starts_ns: npt.NDArray[np.int64],
        ends_ns: npt.NDArray[np.int64],
        names: npt.NDArray[np.int64],
    ) -> Columns:
        begin_ns, end_ns = self._window.begin_ns, self._window.end_ns
        starts_ns = np.clip(starts_ns, begin_ns, end_ns) - begin_ns
        ends_ns = np.clip(ends_ns, begin_ns, end_ns) - begin_ns
        order = np.lexsort([ends_ns, starts_ns])
        order = order[ends_ns[order] > starts_ns[order]]
        return Columns(starts_ns[order], ends_ns[order], names[order].astype(np.int64))

    def _names(self, spans: npt.NDArray[np.void], is_waiting: bool) -> npt.NDArray[np.int64]:
        keys, inverse = np.unique(spans[["kind", "id"]], return_inverse=True)
        found = [self._name(kind, identifier, is_waiting) for kind, identifier in keys.tolist()]
        return np.array(found, np.int64)[inverse.reshape(-1)]

    def _name(self, kind: int, identifier: int, is_waiting: bool) -> int:
        key = (kind, identifier, is_waiting)
        index = self._by_span.get(key)
        if index is None:
            index = self._by_span[key] = self._index(self._describe(*key))
        return index

    def _describe(self, kind: int, identifier: int, is_waiting: bool) -> Name:
        if kind == KERNEL_SPAN:
            timing = self._data.timings[identifier]
            return Name(Category.COMPUTE, timing["name"], f"{timing['class']}, {timing['tier']}")
        if kind == COPY_SPAN:
            words = CopyKind(identifier).name.lower().replace("_", " ")
            return Name(Category.COPY, f"copy, {words}", "")
        if kind == FILL_SPAN:
            return Name(Category.COPY, "fill of device memory", "")
        if kind == HOST_WAIT_SPAN:
            words = WaitKind(identifier).name.lower().replace("_", " ")
            return Name(Category.HOST, f"host waits: {words}", "")
        operation = self._data.operations[identifier]
        text = f"{operation['kind']} {size_text(operation['bytes'])}"
        note = f"{self._layouts.of(operation)}; {operation['site']}"
        if is_waiting:
            return Name(Category.WAITING, f"{text}: waits for the last rank", note)
        return Name(Category.COMMUNICATION, text, note)


def _merged_names(below_ns: int) -> list[Name]:
    """One for each category, in their order."""
    note = f"merged for this picture: each shorter than {duration_text(below_ns)}"
    return [Name(category, "several short ones", note) for category in Category]


def _merge(columns: Columns, names: list[Name], below_ns: int) -> Columns:
    """Runs of short spans close together become one span, drawn as the longest of them."""
    if not len(columns):
        return columns
    lasted_ns = columns.ends_ns - columns.starts_ns
    short = lasted_ns < below_ns
    near = columns.starts_ns[1:] - columns.ends_ns[:-1] < below_ns
    first = np.flatnonzero(np.append(True, ~(short[1:] & short[:-1] & near)))
    group = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(columns))))
    longest = np.lexsort([lasted_ns, group])[np.append(first[1:], len(columns)) - 1]
    categories = np.array([name.category for name in names], np.int64)
    alone = np.diff(np.append(first, len(columns))) == 1
    merged_names = len(names) + categories[columns.names[longest]]
    return Columns(
        columns.starts_ns[first],
        np.maximum.reduceat(columns.ends_ns, first),
        np.where(alone, columns.names[first], merged_names),
    )
