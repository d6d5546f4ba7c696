"""The events of a trace: a process for each rank, with its host and its streams as threads.

The format: Google's "Trace Event Format", with the fields that PyTorch's profiler writes. Times
there are microseconds; three digits after the point keep our nanoseconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from phantora_py.data import RunData
from phantora_py.data.operations import tracks_of
from phantora_py.data.rows import Allocation
from phantora_py.report.iterations import Nanoseconds, find_iterations, find_steps
from phantora_py.report.trace.names import Label, Labels
from phantora_py.report.window import Window
from sim_server.deadlock import ranges_text
from sim_server.log.history import COMMUNICATION_SPAN, HOST_WAIT_SPAN
from sim_server.records import MarkerKind

Event = dict[str, Any]

# Threads of a rank that are no streams.
_HOST, _RANGES, _STEPS = 1, 2, 3
# The legacy default stream is 7 in every profile of hardware, and tools that look for streams take
# numbers above 0.
_FIRST_STREAM = 7
# Streams of the next device of one rank begin so far on (assumed to be enough).
_STREAMS_OF_A_DEVICE = 10_000


class Trace:
    """The events of a run within a window."""

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
        self._threads = [_threads(data.spans_of(rank)) for rank in range(data.ranks)]

    def rank_events(self, rank: int, launches: bool) -> Iterator[Event]:
        """What a rank did. `launches`: also the calls that issued it, tied to what they issued."""
        spans = self._within(self._data.spans_of(rank))
        on_device = spans["kind"] != HOST_WAIT_SPAN
        yield from self._names(rank)
        yield from self._device_events(rank, spans[on_device], launches)
        for span in spans[~on_device]:
            label = self._labels.of(int(span["kind"]), int(span["id"]))
            yield _slice(rank, _HOST, label.category, label.name, _times(span))
        yield from self._memory_events(rank)
        for name, begin_ns, end_ns in self._ranges.get(rank, ()):
            if self._overlaps(begin_ns, end_ns):
                yield _slice(rank, _RANGES, "user_annotation", name, (begin_ns, end_ns))
        for number, begin_ns, end_ns in _steps(self._steps.get(rank)):
            if self._overlaps(begin_ns, end_ns):
                name = f"ProfilerStep#{number}"
                yield _slice(rank, _STEPS, "user_annotation", name, (begin_ns, end_ns))

    def run_events(self) -> Iterator[Event]:
        """The iterations of the run as a whole, as a process above the ranks."""
        process = self._data.ranks
        yield _metadata(process, 0, "process_name", {"name": "run"})
        yield _metadata(process, 0, "process_sort_index", {"sort_index": -1})
        yield _metadata(process, _STEPS, "thread_name", {"name": "iterations"})
        for number, begin_ns, end_ns in _steps(find_iterations(self._data).boundaries_ns):
            if self._overlaps(begin_ns, end_ns):
                name = f"iteration {number}"
                yield _slice(process, _STEPS, "iteration", name, (begin_ns, end_ns))

    def flow_events(self, ranks: frozenset[int]) -> Iterator[Event]:
        """Arrows from part to part of each operation: from who sends to who receives; from rank to
        rank in the order of arrival for all others, so that they end at the one that came last.
        """
        parts: dict[int, dict[tuple[int, int | None], Any]] = {}
        for rank in sorted(ranks):
            spans = self._within(self._data.spans_of(rank))
            for span in spans[spans["kind"] == COMMUNICATION_SPAN]:
                by_track = parts.setdefault(int(span["id"]), {})
                by_track[rank, None] = by_track[rank, int(span["device"])] = span
        for identifier, by_track in parts.items():
            operation = self._data.operations[identifier]
            order = tracks_of(operation)
            if operation["kind"] != "send":
                arrived = zip(operation["arrivals_ns"], operation["members"], order, strict=True)
                order = [track for _, _, track in sorted(arrived)]
            order = [track for track in dict.fromkeys(order) if track in by_track]
            for place, track in enumerate(order if len(order) > 1 else ()):
                span, (rank, _) = by_track[track], track
                # Each part is under way then: the last has just arrived, and none has ended.
                yield {
                    **{"ph": "s" if place == 0 else "t" if place < len(order) - 1 else "f"},
                    **{"bp": "e", "cat": "collective", "name": operation["kind"]},
                    **{"id": identifier + 1, "pid": rank, "ts": operation["moves_ns"] / 1e3},
                    "tid": self._threads[rank][int(span["device"]), int(span["stream"])],
                }

    def _device_events(
        self, rank: int, spans: npt.NDArray[np.void], launches: bool
    ) -> Iterator[Event]:
        label_of, moves_ns, threads = self._labels.of, self._moves_ns, self._threads[rank]
        fields = ("kind", "id", "device", "stream", "issue_ns", "start_ns", "end_ns")
        columns = (spans[field].tolist() for field in fields)
        for kind, identifier, device, stream, issue_ns, start_ns, end_ns in zip(
            *columns, strict=True
        ):
            label = label_of(kind, identifier)
            number = threads[device, stream]
            arguments = {"device": device, "stream": number, **label.arguments}
            if kind == COMMUNICATION_SPAN:
                waited_ns = int(moves_ns[identifier]) - start_ns
                arguments["waited for the last rank (us)"] = waited_ns / 1e3
            if launches:
                arguments["correlation"] = correlation = next(self._correlations)
                yield from _launch(rank, label, issue_ns, correlation)
                yield _arrow("f", rank, number, start_ns, correlation)
            event = _slice(rank, number, label.category, label.name, (start_ns, end_ns))
            event["args"] = arguments
            yield event

    def _memory_events(self, rank: int) -> Iterator[Event]:
        """Bytes in use on each device, whenever they change; what they were before, at the begin
        of the window.
        """
        before: dict[str, Event] = {}
        within = []
        for one in self._allocations.get(rank, ()):
            name = f"device memory, GPU {one.device}"
            event = {
                **{"ph": "C", "name": name, "pid": rank, "ts": one.time_ns / 1e3},
                "args": {"bytes in use": one.in_use_bytes},
            }
            if one.time_ns < self._window.begin_ns:
                before[name] = {**event, "ts": self._window.begin_ns / 1e3}
            elif one.time_ns <= self._window.end_ns or not self._window.iterations:
                within.append(event)
        yield from before.values()
        yield from within

    def _names(self, rank: int) -> Iterator[Event]:
        per_node = int(self._data.run["gpus_per_node"])
        devices = sorted({device for device, _ in self._threads[rank]})
        own = f"GPU {rank % per_node}"
        gpus = f"GPUs {ranges_text(devices)}" if len(devices) > 1 else own
        name = f"rank {rank} (node {rank // per_node}, {gpus})"
        yield _metadata(rank, 0, "process_name", {"name": name})
        yield _metadata(rank, 0, "process_sort_index", {"sort_index": rank})
        streams = self._threads[rank]
        several_devices = len({device for device, _ in streams}) > 1
        threads = {_HOST: "host", _RANGES: "NVTX ranges", _STEPS: "iterations of the host"}
        for (device, stream), thread in streams.items():
            words = f"GPU {device} stream {stream}" if several_devices else f"stream {stream}"
            threads[thread] = words
        for thread, words in threads.items():
            yield _metadata(rank, thread, "thread_name", {"name": words})
            yield _metadata(rank, thread, "thread_sort_index", {"sort_index": thread})

    def _within(self, spans: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        begin_ns, end_ns = self._window.begin_ns, self._window.end_ns
        return np.asarray(spans[(spans["end_ns"] > begin_ns) & (spans["start_ns"] < end_ns)])

    def _overlaps(self, begin_ns: int, end_ns: int) -> bool:
        return end_ns > self._window.begin_ns and begin_ns < self._window.end_ns


def _threads(spans: npt.NDArray[np.void]) -> dict[tuple[int, int], int]:
    """The thread of each of a rank's streams, by device and stream."""
    spans = spans[spans["kind"] != HOST_WAIT_SPAN]
    numbers = np.unique(spans["device"].astype(np.int64) << 32 | spans["stream"]).tolist()
    pairs = [(number >> 32, number & 0xFFFFFFFF) for number in numbers]
    devices = sorted({device for device, _ in pairs})
    return {
        (device, stream): devices.index(device) * _STREAMS_OF_A_DEVICE + _FIRST_STREAM + stream
        for device, stream in pairs
    }


def _times(span: np.void) -> tuple[int, int]:
    return int(span["start_ns"]), int(span["end_ns"])


def _slice(process: int, thread: int, category: str, name: str, times_ns: tuple[int, int]) -> Event:
    begin_ns, end_ns = times_ns
    return {
        **{"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread},
        **{"ts": begin_ns / 1e3, "dur": (end_ns - begin_ns) / 1e3},
    }


def _launch(rank: int, label: Label, issue_ns: int, correlation: int) -> Iterator[Event]:
    """How long a call took is not recorded, so it takes no time here."""
    call = _slice(rank, _HOST, "cuda_runtime", label.launch, (issue_ns, issue_ns))
    call["args"] = {"correlation": correlation}
    yield call
    yield _arrow("s", rank, _HOST, issue_ns, correlation)


def _arrow(phase: str, rank: int, thread: int, time_ns: int, correlation: int) -> Event:
    """From a call to what it issued, as the profiler draws it."""
    return {
        **{"ph": phase, "cat": "ac2g", "name": "ac2g", "id": correlation},
        **{"pid": rank, "tid": thread, "ts": time_ns / 1e3, "bp": "e"},
    }


def _metadata(process: int, thread: int, name: str, arguments: Mapping[str, Any]) -> Event:
    return {"ph": "M", "ts": 0, "name": name, "pid": process, "tid": thread, "args": arguments}


def _steps(ends_ns: Nanoseconds | None) -> Iterator[tuple[int, int, int]]:
    """Number, begin and end; the first lasts from the start of the run."""
    begin_ns = 0
    for number, end_ns in enumerate([] if ends_ns is None else ends_ns.tolist()):
        yield number, begin_ns, end_ns
        begin_ns = end_ns


def _nvtx_ranges(data: RunData) -> dict[int, list[tuple[str, int, int]]]:
    """Name, begin and end, by rank; what was never closed is left out."""
    stacks: dict[int, list[tuple[str, int]]] = {}
    ranges: dict[int, list[tuple[str, int, int]]] = {}
    for rank, time_ns, kind, name in data.markers:
        if kind == MarkerKind.RANGE_PUSH:
            stacks.setdefault(rank, []).append((name, time_ns))
        elif kind == MarkerKind.RANGE_POP and stacks.get(rank):
            ranges.setdefault(rank, []).append((*stacks[rank].pop(), time_ns))
    return ranges
