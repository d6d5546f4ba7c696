"""What is in a trace: a process for each rank, with its host and its streams as threads.

`chrome.py` and `perfetto.py` beside it write this, each in a format of its own.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from phantora_py.data import RunData
from phantora_py.data.operations import tracks_of
from phantora_py.data.rows import Allocation
from phantora_py.report.iterations import Nanoseconds, find_iterations, find_steps
from phantora_py.report.links import capacities_bytes_per_s, link_steps
from phantora_py.report.modules import are_scopes_known
from phantora_py.report.trace.names import Label, Labels
from phantora_py.report.trace.scopes import module_slices, phase_slices, scope_stretches
from phantora_py.report.window import Window
from sim_server.deadlock import ranges_text
from sim_server.log.history import COMMUNICATION_SPAN, HOST_WAIT_SPAN
from sim_server.records import MarkerKind

# Threads of a rank that are no streams.
_HOST, _RANGES, _STEPS, _PHASES, _MODULES = 1, 2, 3, 4, 5
# The legacy default stream is 7 in every profile of hardware, and tools that look for streams take
# numbers above 0.
_FIRST_STREAM = 7
# Streams of the next device of one rank begin so far on (assumed to be enough).
_STREAMS_OF_A_DEVICE = 10_000
# Further threads of the host, whose waits overlap (assumed: no stream has such a number).
_MORE_HOSTS = 1_000_000


@dataclass(frozen=True, eq=False)
class Process:
    """A rank, or the run as a whole. `place`: counted from the top."""

    number: int
    name: str
    place: int


@dataclass(frozen=True, eq=False)
class Thread:
    """Slices of one lie one after the other or one within the other."""

    process: Process
    number: int
    name: str
    device_stream: tuple[int, int] | None = None
    """What each event of a stream says again in PyTorch's profiler."""


@dataclass(frozen=True, eq=False)
class Counter:
    """`quantity`: of what the values are, with their unit."""

    process: Process
    name: str
    quantity: str


class Slice(NamedTuple):
    """Something that took time. Those of a thread come in the order of their begins, the longer
    first.
    """

    thread: Thread
    label: Label
    begin_ns: int
    end_ns: int
    waited_ns: int | None = None
    """Of communication: for the last rank."""
    correlation: int | None = None
    """The same for a call and for what it issued."""
    operation: int | None = None
    """The same for all parts of an operation."""


class Count(NamedTuple):
    """The value of a counter from then on."""

    counter: Counter
    time_ns: int
    value: float


class Arrow(NamedTuple):
    """A point of the line through the parts of an operation. `phase`: `s` starts it, `t` continues
    it, `f` finishes it.
    """

    phase: str
    thread: Thread
    operation: int
    kind: str
    time_ns: int


Item = Process | Thread | Slice | Count

BYTES_IN_USE = "bytes in use"
_ANNOTATION = "user_annotation"
_CAPACITY = "% of the capacity"
_RATE = "bytes per second"


class Trace:
    """What a run did within a window."""

    def __init__(self, data: RunData, window: Window) -> None:
        self._data = data
        self._window = window
        self._labels = Labels(data)
        self._moves_ns = np.array([one["moves_ns"] for one in data.operations], np.int64)
        self._steps = find_steps(data).host_times
        self._ranges = _nvtx_ranges(data)
        self._correlations = itertools.count(1)
        self._allocations: dict[int, list[Allocation]] = {}
        for one in data.allocations:
            self._allocations.setdefault(one.rank, []).append(one)
        # By device and stream.
        self._streams: list[dict[tuple[int, int], Thread]] = []
        for rank in range(data.ranks):
            numbers = _numbers(data.spans_of(rank))
            self._streams.append(_threads(self._process(rank, [*numbers]), numbers))

    def rank_items(self, rank: int, launches: bool) -> Iterator[Item]:
        """What a rank did. `launches`: also the calls that issued it, tied to what they issued."""
        spans = self._within(self._data.spans_of(rank))
        on_device = spans["kind"] != HOST_WAIT_SPAN
        waits = list(_laid_out(spans[~on_device]))
        streams = self._streams[rank]
        process = next((thread.process for thread in streams.values()), self._process(rank, []))
        host = Thread(process, _HOST, "host")
        ranges = Thread(process, _RANGES, "NVTX ranges")
        steps = Thread(process, _STEPS, "iterations of the host")
        hosts = [host]
        for number in range(2, 2 + max((lane for lane, _ in waits), default=0)):
            hosts.append(Thread(process, _MORE_HOSTS + number, f"host, thread {number}"))
        yield process
        device_spans = spans[on_device]
        scopes = self._scopes(rank, process, device_spans)
        threads = (host, ranges, steps, *scopes, *streams.values(), *hosts[1:])
        yield from sorted(threads, key=lambda thread: thread.number)
        for slices in scopes.values():
            yield from slices
        # Operations of a group begin together; the longer ones come first.
        order = np.lexsort((-device_spans["end_ns"], device_spans["start_ns"]))
        yield from self._device_slices(rank, device_spans[order], host if launches else None)
        for lane, span in waits:
            label = self._labels.of(int(span["kind"]), int(span["id"]))
            yield Slice(hosts[lane], label, int(span["start_ns"]), int(span["end_ns"]))
        yield from self._memory(rank, process)
        for name, begin_ns, end_ns in self._ranges.get(rank, ()):
            if self._overlaps(begin_ns, end_ns):
                yield Slice(ranges, self._labels.of_range(_ANNOTATION, name), begin_ns, end_ns)
        for number, begin_ns, end_ns in _steps(self._steps.get(rank)):
            if self._overlaps(begin_ns, end_ns):
                label = self._labels.of_range(_ANNOTATION, f"ProfilerStep#{number}")
                yield Slice(steps, label, begin_ns, end_ns)

    def run_items(self) -> Iterator[Item]:
        """The iterations of the run as a whole and the use of its links, as a process above the
        ranks.
        """
        process = Process(self._data.ranks, "run", -1)
        thread = Thread(process, _STEPS, "iterations")
        yield process
        yield thread
        for number, begin_ns, end_ns in _steps(find_iterations(self._data).boundaries_ns):
            if self._overlaps(begin_ns, end_ns):
                label = self._labels.of_range("iteration", f"iteration {number}")
                yield Slice(thread, label, begin_ns, end_ns)
        yield from self._links(process)

    def arrows(self, ranks: frozenset[int]) -> Iterator[Arrow]:
        """Arrows from part to part of each operation: from who sends to who receives; from rank to
        rank in the order of arrival for all others, so that they end at the one that came last.
        """
        parts: dict[int, dict[tuple[int, int | None], Thread]] = {}
        for rank in sorted(ranks):
            spans = self._within(self._data.spans_of(rank))
            for span in spans[spans["kind"] == COMMUNICATION_SPAN]:
                by_track = parts.setdefault(int(span["id"]), {})
                thread = self._streams[rank][int(span["device"]), int(span["stream"])]
                by_track[rank, None] = by_track[rank, int(span["device"])] = thread
        for identifier, by_track in parts.items():
            operation = self._data.operations[identifier]
            order = tracks_of(operation)
            if operation["kind"] != "send":
                arrived = zip(operation["arrivals_ns"], operation["members"], order, strict=True)
                order = [track for _, _, track in sorted(arrived)]
            order = [track for track in dict.fromkeys(order) if track in by_track]
            for place, track in enumerate(order if len(order) > 1 else ()):
                phase = "s" if place == 0 else "t" if place < len(order) - 1 else "f"
                # Each part is under way then: the last has just arrived, and none has ended.
                time_ns = operation["moves_ns"]
                yield Arrow(phase, by_track[track], identifier, operation["kind"], time_ns)

    def _device_slices(
        self, rank: int, spans: npt.NDArray[np.void], host: Thread | None
    ) -> Iterator[Slice]:
        """`host`: where the calls go that issued them; None leaves them out."""
        label_of, moves_ns, streams = self._labels.of, self._moves_ns, self._streams[rank]
        fields = ("kind", "id", "device", "stream", "issue_ns", "start_ns", "end_ns")
        columns = (spans[field].tolist() for field in fields)
        for kind, identifier, device, stream, issue_ns, start_ns, end_ns in zip(
            *columns, strict=True
        ):
            label = label_of(kind, identifier)
            waited_ns = correlation = operation = None
            if kind == COMMUNICATION_SPAN:
                waited_ns, operation = int(moves_ns[identifier]) - start_ns, identifier
            if host is not None:
                correlation = next(self._correlations)
                # How long a call took is not recorded, so it takes no time here.
                call = self._labels.of_call(label.launch)
                yield Slice(host, call, issue_ns, issue_ns, correlation=correlation)
            thread = streams[device, stream]
            yield Slice(thread, label, start_ns, end_ns, waited_ns, correlation, operation)

    def _scopes(
        self, rank: int, process: Process, spans: npt.NDArray[np.void]
    ) -> dict[Thread, list[Slice]]:
        """Of each GPU threads with its phases and its modules; none if ranks told of none."""
        found: dict[Thread, list[Slice]] = {}
        if not are_scopes_known(self._data):
            return found
        devices = np.unique(spans["device"]).tolist()
        for place, device in enumerate(devices):
            words = f", GPU {device}" if len(devices) > 1 else ""
            first = place * _STREAMS_OF_A_DEVICE
            phases = Thread(process, first + _PHASES, f"phases{words}")
            modules = Thread(process, first + _MODULES, f"modules{words}")
            of_device = spans[spans["device"] == device]
            stretches = list(scope_stretches(self._data, rank, of_device))
            found[phases] = [
                Slice(phases, self._labels.of_range("phase", phase), begin_ns, end_ns)
                for phase, begin_ns, end_ns in phase_slices(stretches)
            ]
            found[modules] = [
                Slice(modules, self._labels.of_module(scope), begin_ns, end_ns)
                for scope, begin_ns, end_ns in module_slices(stretches)
            ]
        return found

    def _memory(self, rank: int, process: Process) -> Iterator[Count]:
        """Bytes in use on each device, whenever they change; what they were before, at the begin
        of the window.
        """
        counters: dict[int, Counter] = {}
        before: dict[int, Count] = {}
        within = []
        for one in self._allocations.get(rank, ()):
            counter = counters.get(one.device)
            if counter is None:
                name = f"device memory, GPU {one.device}"
                counter = counters[one.device] = Counter(process, name, BYTES_IN_USE)
            if one.time_ns < self._window.begin_ns:
                before[one.device] = Count(counter, self._window.begin_ns, one.in_use_bytes)
            elif one.time_ns <= self._window.end_ns or not self._window.iterations:
                within.append(Count(counter, one.time_ns, one.in_use_bytes))
        yield from before.values()
        yield from within

    def _links(self, process: Process) -> Iterator[Count]:
        """How busy the links of each class are, whenever that changes."""
        edges_ns, classes = link_steps(self._data, self._window)
        times_ns = np.maximum(edges_ns, 0).tolist()
        capacities = capacities_bytes_per_s(self._data) if classes else {}
        for one in classes:
            # The digits beyond are of no use and take space.
            curves = [
                ("all", _CAPACITY, np.round(100 * one.mean, 3)),
                ("the busiest", _CAPACITY, np.round(100 * one.busiest, 3)),
            ]
            if one.name in capacities:
                curves.append((_RATE, _RATE, np.round(one.mean * capacities[one.name])))
            for words, quantity, values in curves:
                counter = Counter(process, f"{one.name}, {words}", quantity)
                changes = np.flatnonzero(np.diff(values, prepend=np.nan) != 0)
                for place, value in zip(changes.tolist(), values[changes].tolist(), strict=True):
                    yield Count(counter, times_ns[place], value)

    def _process(self, rank: int, streams: list[tuple[int, int]]) -> Process:
        per_node = int(self._data.run["gpus_per_node"])
        devices = sorted({device for device, _ in streams})
        own = f"GPU {rank % per_node}"
        gpus = f"GPUs {ranges_text(devices)}" if len(devices) > 1 else own
        return Process(rank, f"rank {rank} (node {rank // per_node}, {gpus})", rank)

    def _within(self, spans: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        begin_ns, end_ns = self._window.begin_ns, self._window.end_ns
        return np.asarray(spans[(spans["end_ns"] > begin_ns) & (spans["start_ns"] < end_ns)])

    def _overlaps(self, begin_ns: int, end_ns: int) -> bool:
        return end_ns > self._window.begin_ns and begin_ns < self._window.end_ns


def _numbers(spans: npt.NDArray[np.void]) -> dict[tuple[int, int], int]:
    """The thread of each of a rank's streams, by device and stream."""
    spans = spans[spans["kind"] != HOST_WAIT_SPAN]
    numbers = np.unique(spans["device"].astype(np.int64) << 32 | spans["stream"]).tolist()
    pairs = [(number >> 32, number & 0xFFFFFFFF) for number in numbers]
    devices = sorted({device for device, _ in pairs})
    return {
        (device, stream): devices.index(device) * _STREAMS_OF_A_DEVICE + _FIRST_STREAM + stream
        for device, stream in pairs
    }


def _threads(
    process: Process, numbers: dict[tuple[int, int], int]
) -> dict[tuple[int, int], Thread]:
    several_devices = len({device for device, _ in numbers}) > 1
    threads = {}
    for (device, stream), number in numbers.items():
        words = f"GPU {device} stream {stream}" if several_devices else f"stream {stream}"
        threads[device, stream] = Thread(process, number, words, (device, number))
    return threads


def _laid_out(waits: npt.NDArray[np.void]) -> Iterator[tuple[int, np.void]]:
    """Waits with the thread of the host that each is on, from 0. Which thread waited is not
    recorded; several did where waits overlap.
    """
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    for wait in waits[np.lexsort((waits["end_ns"], waits["start_ns"]))]:
        while busy and busy[0][0] <= wait["start_ns"]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (int(wait["end_ns"]), lane))
        yield lane, wait


def _steps(ends_ns: Nanoseconds | None) -> Iterator[tuple[int, int, int]]:
    """Number, begin and end; the first lasts from the start of the run."""
    begin_ns = 0
    for number, end_ns in enumerate([] if ends_ns is None else ends_ns.tolist()):
        yield number, begin_ns, end_ns
        begin_ns = end_ns


def _nvtx_ranges(data: RunData) -> dict[int, list[tuple[str, int, int]]]:
    """Name, begin and end, by rank, the outer before the inner; never what was not closed."""
    stacks: dict[int, list[tuple[int, str, int]]] = {}
    ranges: dict[int, list[tuple[int, str, int, int]]] = {}
    for place, (rank, time_ns, kind, name) in enumerate(data.markers):
        if kind == MarkerKind.RANGE_PUSH:
            stacks.setdefault(rank, []).append((place, name, time_ns))
        elif kind == MarkerKind.RANGE_POP and stacks.get(rank):
            ranges.setdefault(rank, []).append((*stacks[rank].pop(), time_ns))
    return {rank: [one[1:] for one in sorted(found)] for rank, found in ranges.items()}
