"""The trace in Perfetto's format: what the JSON says, to the nanosecond."""

from __future__ import annotations

import gzip
import io
import itertools
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import runtime_version
from google.protobuf.runtime_version import VersionError
from made_runs import COMMUNICATION, COPY, FILL, HOST_WAIT, KERNEL, Marker, Span, make_run
from test_links import with_links
from test_page import OPERATION, two_iterations
from test_trace import events_of

from phantora_py.cli import main
from phantora_py.data import RunData
from phantora_py.report.trace.events import Item, Trace
from phantora_py.report.trace.perfetto import PerfettoWriter, require_perfetto
from phantora_py.report.window import whole_run
from sim_server.records import MarkerKind, MemoryKind

Event = dict[str, Any]
Place = tuple[int, str]
"""Process, and name of the thread."""
Opened = tuple[str, str, int, dict[str, Any]]
"""Category, name, begin, arguments."""


@dataclass
class Read:
    """What Perfetto makes of a trace."""

    processes: dict[int, str] = field(default_factory=dict)
    threads: list[Place] = field(default_factory=list)
    """In their order on the screen."""
    slices: list[tuple[Place, str, str, int, int]] = field(default_factory=list)
    """Place, category, name, begin, duration."""
    arguments: list[tuple[Place, str, int, int, str]] = field(default_factory=list)
    """Place, name, begin, duration, arguments as text."""
    flows: dict[int, list[Place]] = field(default_factory=dict)
    """In the order of their begins: so Perfetto draws its arrows."""
    ends: set[int] = field(default_factory=set)
    """The flows that something terminates."""
    counts: list[tuple[int, str, int, float]] = field(default_factory=list)
    """Process, name, time, value."""


class Reader:
    """Reads packets as Perfetto's trace processor does: names in the order of the file, events in
    the order of time and, at equal times, of the file; an end is that of what began last.
    """

    def __init__(self, content: bytes) -> None:
        self._tracks: dict[int, Any] = {}
        self._interned: dict[str, dict[int, str]] = defaultdict(dict)
        self._open: dict[Place, list[Opened]] = defaultdict(list)
        self.read = Read()
        packets = require_perfetto().Trace.FromString(content).packet
        assert packets[0].sequence_flags == 1  # what comes before it is forgotten
        assert {packet.trusted_packet_sequence_id for packet in packets} == {1}
        events = []
        for packet in packets:
            for kind, entries in packet.interned_data.ListFields():
                for entry in entries:
                    known = self._interned[kind.name]
                    assert entry.iid not in known
                    known[entry.iid] = entry.name if hasattr(entry, "name") else entry.str.decode()
                assert len({*known.values()}) == len(known)
            if packet.HasField("track_descriptor"):
                self._describe(packet.track_descriptor)
            if packet.HasField("track_event"):
                names = self._names(packet.track_event)
                events.append((packet.timestamp, packet.track_event, *names))
        for event in sorted(events, key=lambda event: event[0]):
            self._take(*event)
        assert not any(self._open.values())
        threads = [one for one in self._tracks.values() if one.HasField("thread")]
        assert threads == sorted(threads, key=lambda one: one.sibling_order_rank)
        tids = {one.thread.tid for one in threads}
        assert len(tids) == len(threads)
        assert tids.isdisjoint(self.read.processes)  # Perfetto would take it for the main thread

    def _describe(self, track: Any) -> None:
        assert track.uuid not in self._tracks
        assert not track.parent_uuid or track.parent_uuid in self._tracks
        self._tracks[track.uuid] = track
        if track.HasField("process"):
            self.read.processes[track.process.pid] = track.process.process_name
        if track.HasField("thread"):
            parent = self._tracks[track.parent_uuid].process
            assert parent.pid == track.thread.pid
            self.read.threads.append((parent.pid, track.thread.thread_name))

    def _names(self, event: Any) -> tuple[str, str, dict[str, Any]]:
        """Those that are known at this place of the file."""
        names, texts = "debug_annotation_names", "debug_annotation_string_values"
        arguments = {}
        for one in event.debug_annotations:
            value = getattr(one, one.WhichOneof("value"))
            is_text = one.WhichOneof("value") == "string_value_iid"
            text = self._interned[texts][value] if is_text else value
            arguments[self._interned[names][one.name_iid]] = text
        if not event.name_iid:
            return "", "", arguments
        (category,) = event.category_iids
        category = self._interned["event_categories"][category]
        return category, self._interned["event_names"][event.name_iid], arguments

    def _take(
        self, time_ns: int, event: Any, category: str, name: str, arguments: dict[str, Any]
    ) -> None:
        track = self._tracks[event.track_uuid]
        kind = event.Type.Name(event.type)
        if kind == "TYPE_COUNTER":
            value = getattr(event, event.WhichOneof("counter_value_field"))
            process = self._tracks[track.parent_uuid].process.pid
            self.read.counts.append((process, track.name, time_ns, value))
            return
        place = (track.thread.pid, track.thread.thread_name)
        if kind == "TYPE_SLICE_END":
            self._add(place, self._open[place].pop(), time_ns)
            return
        if kind == "TYPE_SLICE_BEGIN":
            self._open[place].append((category, name, time_ns, arguments))
        else:
            assert kind == "TYPE_INSTANT"
            self._add(place, (category, name, time_ns, arguments), time_ns)
        for flow in (*event.flow_ids, *event.terminating_flow_ids):
            self.read.flows.setdefault(flow, []).append(place)
        self.read.ends |= {*event.terminating_flow_ids}

    def _add(self, place: Place, opened: Opened, end_ns: int) -> None:
        category, name, begin_ns, arguments = opened
        length_ns = end_ns - begin_ns
        self.read.slices.append((place, category, name, begin_ns, length_ns))
        self.read.arguments.append((place, name, begin_ns, length_ns, as_text(arguments)))


def as_text(arguments: dict[str, Any]) -> str:
    return str(sorted(arguments.items()))


def read(data: RunData, *options: str) -> Read:
    """What Perfetto reads of the trace that the command writes."""
    path = data.path.with_suffix(".pftrace")
    assert main(["report", str(data.path), "--trace", str(path), *options]) == 0
    return Reader(path.read_bytes()).read


def as_json(data: RunData, *options: str) -> tuple[list[Event], list[Event]]:
    """The events of JSON: of all ranks' own files, and of the file of all."""
    file, folder = data.path.with_suffix(".json"), data.path.with_suffix(".ranks")
    for path in (file, folder):
        assert main(["report", str(data.path), "--trace", str(path), *options]) == 0
    return [event for one in sorted(folder.iterdir()) for event in events_of(one)], events_of(file)


class Places:
    """Where events of JSON are."""

    def __init__(self, events: list[Event]) -> None:
        self._names = {
            (event["pid"], event["tid"]): event["args"]["name"]
            for event in events
            if event["name"] == "thread_name"
        }
        self.all = [(pid, name) for (pid, _), name in sorted(self._names.items())]

    def of(self, event: Event) -> Place:
        return event["pid"], self._names[event["pid"], event["tid"]]


def ns(microseconds: float) -> int:
    return round(1e3 * microseconds)


def assert_equal(found: Read, by_rank: list[Event], of_all: list[Event], run: int) -> None:
    """Ranks' own files have the calls, and the file of all the run's own process `run`."""
    events = by_rank + [event for event in of_all if event["pid"] == run]
    places = Places(events)
    assert sorted(found.threads) == sorted(places.all)
    for pid in found.processes:
        assert [one for one in found.threads if one[0] == pid] == [
            one for one in places.all if one[0] == pid
        ]
    slices = [
        (places.of(event), event["cat"], event["name"], ns(event["ts"]), ns(event["dur"]))
        for event in events
        if event["ph"] == "X"
    ]
    assert sorted(found.slices) == sorted(slices)
    arguments = []
    for event in events:
        if event["ph"] == "X":
            left_out = ("device", "stream", "correlation")
            told = {k: v for k, v in event.get("args", {}).items() if k not in left_out}
            times_ns = ns(event["ts"]), ns(event["dur"])
            arguments.append((places.of(event), event["name"], *times_ns, as_text(told)))
    assert sorted(found.arguments) == sorted(arguments)
    assert found.processes == {
        event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"
    }
    counts = [
        (event["pid"], event["name"], ns(event["ts"]), *event["args"].values())
        for event in events
        if event["ph"] == "C"
    ]
    assert sorted(found.counts) == sorted(counts)
    assert_same_arrows(found, by_rank, of_all)


def assert_same_arrows(found: Read, by_rank: list[Event], of_all: list[Event]) -> None:
    """From calls to what they issued, and from part to part of operations."""
    places = Places(by_rank + of_all)
    chains: dict[tuple[str, int], list[Place]] = defaultdict(list)
    for event in by_rank + of_all:
        if event["ph"] in "stf":
            chains[event["cat"], event["id"]].append(places.of(event))
    drawn = [chain for chain in found.flows.values() if len(chain) > 1]
    assert sorted(drawn) == sorted(chains.values())
    launches = [key for key in chains if key[0] == "ac2g"]
    assert len(found.ends) == len(launches)


def test_the_same_as_the_json(tmp_path: Path) -> None:
    """Slices with their arguments, threads, arrows and counters of a whole run, and of a part."""
    taken = [
        [rank, time_ns, rank, MemoryKind.DEVICE, 10, in_use_bytes, 0, "a.py:1 f"]
        for rank in (0, 1)
        for time_ns, in_use_bytes in ((101, 10), (200, 20), (2_000_000, 30 << 40))
    ]
    links = [(1_900_000, 2_000_000, 0), (1_950_000, 2_250_000, 1)]
    data = with_links(tmp_path / "a.phr", links, allocations=taken)
    found = read(data)
    assert_equal(found, *as_json(data), run=2)
    assert (2, "NIC, all", 1_950_000, 75.0) in found.counts
    assert ((1, "stream 0"), "kernel", "k", 1_000_000, 900_000) in found.slices
    assert {*found.processes} == {0, 1, 2}
    part = ("--trace-iterations", "1", "--trace-ranks", "1")
    found = read(data, *part)
    folder = tmp_path / "a.ranks"
    for one in folder.iterdir():
        one.unlink()
    assert_equal(found, *as_json(data, *part), run=2)
    assert {*found.processes} == {1, 2}


def test_several_gpus_and_ranges(tmp_path: Path) -> None:
    """Ranges that begin together are one in the other; what takes no time is there."""
    spans: list[Span] = [
        (FILL, 0, 0, 5),
        (HOST_WAIT, 6, 6, 9),
        (COPY, 10, 10, 20),
        (FILL, 11, 20, 20),
    ]
    pushed: list[tuple[int, str]] = [(1, "a"), (1, "b"), (1, "c")]
    pops = (1, 2, 3)
    markers: list[Marker] = [
        *((0, time_ns, MarkerKind.RANGE_PUSH, name) for time_ns, name in pushed),
        *((0, time_ns, MarkerKind.RANGE_POP, "") for time_ns in pops),
        (0, 3, MarkerKind.RANGE_PUSH, "a"),
        (0, 7, MarkerKind.RANGE_POP, ""),
    ]
    rows = make_run(tmp_path / "a.phr", [spans]).spans
    rows["device"][rows["end_ns"] == 20] = 1
    data = make_run(tmp_path / "a.phr", [spans], markers, spans=rows)
    found = read(data)
    assert_equal(found, *as_json(data), run=1)
    ranges = [one[2:] for one in found.slices if one[0] == (0, "NVTX ranges")]
    assert sorted(ranges) == [("a", 1, 2), ("a", 3, 4), ("b", 1, 1), ("c", 1, 0)]
    assert {"GPU 0 stream 0", "GPU 1 stream 0"} <= {name for _, name in found.threads}


def test_waits_that_overlap(tmp_path: Path) -> None:
    """Threads of a rank wait at the same time: each wait keeps its length, on a thread where no
    other is under way.
    """
    waits: list[Span] = [
        *((HOST_WAIT, 0, 0, 50), (HOST_WAIT, 10, 10, 90), (HOST_WAIT, 20, 20, 30)),
        *((HOST_WAIT, 50, 50, 60), (HOST_WAIT, 70, 70, 95)),
    ]
    data = make_run(tmp_path / "a.phr", [waits])
    found = read(data)
    assert_equal(found, *as_json(data), run=1)
    by_thread = defaultdict(list)
    for (_, thread), _, _, begin_ns, length_ns in sorted(found.slices):
        by_thread[thread].append((begin_ns, begin_ns + length_ns))
    assert by_thread == {
        "host": [(0, 50), (50, 60), (70, 95)],
        "host, thread 2": [(10, 90)],
        "host, thread 3": [(20, 30)],
    }


def test_sends(tmp_path: Path) -> None:
    """Perfetto lets an arrow begin where a part began first; both parts have it."""
    send = {**OPERATION, "kind": "send", "members": [0, 1]}
    operations = [OPERATION, send]
    spans = two_iterations(tmp_path / "a.phr", operations=operations).spans
    spans["id"][spans["kind"] == COMMUNICATION] = 1
    found = read(two_iterations(tmp_path / "a.phr", operations=operations, spans=spans))
    assert [(1, "stream 0"), (0, "stream 0")] in found.flows.values()


def test_a_group_of_operations(tmp_path: Path) -> None:
    """They begin together: each keeps its own end and arguments."""
    by_rank: list[list[Span]] = [
        [(COMMUNICATION, 0, 5, end_ns) for end_ns in (20, 20, 50)] for _ in range(2)
    ]
    operations = [
        {**OPERATION, "arrivals_ns": [5, 5], "moves_ns": 5, "ends_ns": [end_ns] * 2, "bytes": size}
        for end_ns, size in ((20, 1), (20, 2), (50, 3))
    ]
    spans = make_run(tmp_path / "a.phr", by_rank, operations=operations).spans
    spans["id"] = [0, 1, 2] * 2
    spans = spans[spans["end_ns"].argsort(kind="stable")]
    data = make_run(tmp_path / "a.phr", by_rank, operations=operations, spans=spans)
    assert_equal(read(data), *as_json(data), run=2)


def test_numbers_of_streams(tmp_path: Path) -> None:
    """Whatever a data file may have."""
    rows = make_run(tmp_path / "a.phr", [[(COPY, 0, 0, 5)]]).spans
    rows["stream"] = 2**32 - 1
    data = make_run(tmp_path / "a.phr", [[(COPY, 0, 0, 5)]], spans=rows)
    assert_equal(read(data), *as_json(data), run=1)


def test_a_name_is_told_once(tmp_path: Path) -> None:
    """However often something ran."""
    kernels: list[Span] = [(KERNEL, time_ns, time_ns, time_ns + 5) for time_ns in range(0, 900, 9)]
    timings = [{"name": "a_long_name", "class": "gemm", "tier": "modelled", "duration_ns": 1}]
    data = make_run(tmp_path / "a.phr", [kernels] * 2, timings=timings)
    names = [name for _, _, name, _, _ in read(data).slices]
    assert names.count("a_long_name") == names.count("cudaLaunchKernel") == 200
    content = (tmp_path / "a.pftrace").read_bytes()
    assert content.count(b"a_long_name") == content.count(b"cudaLaunchKernel") == 1


def test_packed(tmp_path: Path) -> None:
    """With .gz the same bytes are packed; the same run makes the same bytes."""
    data = two_iterations(tmp_path / "a.phr")
    paths = [tmp_path / name for name in ("a.pftrace", "b.pftrace", "c.pftrace.gz")]
    for path in paths:
        assert main(["report", str(data.path), "--trace", str(path)]) == 0
    plain, again, packed = (path.read_bytes() for path in paths)
    assert plain == again == gzip.decompress(packed)


def test_written_as_it_comes(tmp_path: Path) -> None:
    """What was taken is in the file before the next is asked for."""
    data = two_iterations(tmp_path / "a.phr")
    file = io.BytesIO()
    sizes = []

    def items() -> Iterator[Item]:
        for item in Trace(data, whole_run(data)).rank_items(0, launches=True):
            sizes.append(file.tell())
            yield item

    PerfettoWriter(file, data).write(items())
    assert all(one < other for one, other in itertools.pairwise(sizes))


def test_a_run_without_anything(tmp_path: Path) -> None:
    """A program that used no GPU has an empty trace."""
    found = read(make_run(tmp_path / "a.phr", [[], []]))
    assert (found.slices, found.counts) == ([], [])
    assert {*found.processes.values()} == {
        "run",
        "rank 0 (node 0, GPU 0)",
        "rank 1 (node 0, GPU 1)",
    }


def test_without_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is missing and how to get it, before anything is written; JSON does without."""
    data = two_iterations(tmp_path / "a.phr")
    module = "perfetto.protos.perfetto.trace.perfetto_trace_pb2"

    def refused() -> str:
        assert main(["report", str(data.path), "--trace", str(tmp_path / "a.pftrace")]) == 2
        assert not (tmp_path / "a.pftrace").exists()
        return " ".join(capsys.readouterr().err.split())

    monkeypatch.setitem(sys.modules, module, None)
    assert "missing or older than 0.59: pip install 'phantora[perfetto]'" in refused()
    assert main(["report", str(data.path), "--trace", str(tmp_path / "a.json")]) == 0
    monkeypatch.delitem(sys.modules, module)

    def refuse(*_: object) -> None:
        raise VersionError("gencode 6.31.1 runtime 5.29.6.")

    monkeypatch.setattr(runtime_version, "ValidateProtobufRuntimeVersion", refuse)
    assert "the installed protobuf: gencode 6.31.1 runtime 5.29.6. To install" in refused()
