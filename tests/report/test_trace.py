"""The trace: valid, complete, in the words of PyTorch's profiler."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from made_runs import COPY, FILL, HOST_WAIT, Marker, Span, make_run
from test_page import OPERATION, two_iterations

from phantora_py.cli import main
from phantora_py.data import RunData
from sim_server.records import MarkerKind, MemoryKind

# What each kind of event must have. Source: Google's "Trace Event Format".
REQUIRED = {
    "X": {"name", "cat", "pid", "tid", "ts", "dur"},
    "M": {"name", "pid", "args"},
    "s": {"name", "cat", "id", "pid", "tid", "ts"},
    "t": {"name", "cat", "id", "pid", "tid", "ts"},
    "f": {"name", "cat", "id", "pid", "tid", "ts", "bp"},
    "C": {"name", "pid", "ts", "args"},
}
Event = dict[str, Any]


def events_of(path: Path) -> list[Event]:
    """The events of a trace, each looked at for what the format asks for."""
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    events: list[Event] = json.loads(text)["traceEvents"]
    for event in events:
        assert event.keys() >= REQUIRED[event["ph"]], event
        assert all(isinstance(event.get(key, 0), int) for key in ("pid", "tid", "id"))
        assert event.get("ts", 0) >= 0
        assert event.get("dur", 0) >= 0
    check_slices(events)
    check_flows(events)
    return events


def check_slices(events: list[Event]) -> None:
    """Slices of a thread lie one after the other or one within the other."""
    threads = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            begin_ns = round(1e3 * event["ts"])
            end_ns = begin_ns + round(1e3 * event["dur"])
            threads[event["pid"], event["tid"]].append((begin_ns, -end_ns))
    for slices in threads.values():
        open_ends_ns: list[int] = []
        for begin_ns, minus_end_ns in sorted(slices):
            while open_ends_ns and open_ends_ns[-1] <= begin_ns:
                open_ends_ns.pop()
            assert not open_ends_ns or -minus_end_ns <= open_ends_ns[-1]
            open_ends_ns.append(-minus_end_ns)


def check_flows(events: list[Event]) -> None:
    """An arrow begins and ends once, never goes back in time, and ends on slices."""
    arrows = defaultdict(list)
    slices = defaultdict(list)
    for event in events:
        if event["ph"] in "stf":
            arrows[event["cat"], event["id"]].append(event)
        elif event["ph"] == "X":
            slices[event["pid"], event["tid"]].append(event)
    for arrow in arrows.values():
        steps = "".join(event["ph"] for event in arrow)
        assert (steps[0], steps[-1], set(steps[1:-1]) <= {"t"}) == ("s", "f", True)
        times = [event["ts"] for event in arrow]
        assert times == sorted(times)
        for event in arrow:
            assert any(
                one["ts"] <= event["ts"] <= one["ts"] + one["dur"]
                for one in slices[event["pid"], event["tid"]]
            ), event


def trace(data: RunData, path: Path, *options: str) -> list[Event]:
    """The trace that the command writes."""
    assert main(["report", str(data.path), "--trace", str(path), *options]) == 0
    return events_of(path)


def named(events: list[Event], phase: str) -> list[str]:
    return [event["name"] for event in events if event["ph"] == phase]


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_all_ranks_in_a_file(tmp_path: Path, name: str) -> None:
    """Ranks are processes, streams are threads, and every span is there to the nanosecond."""
    data = two_iterations(tmp_path / "a.phr")
    events = trace(data, tmp_path / name)
    slices = [event for event in events if event["ph"] == "X" and event["pid"] == 1]
    assert [
        (event["tid"], event["name"], event["ts"], event["dur"])
        for event in slices
        if "stream" in event.get("args", {})
    ] == [
        (7, "k", 0.0, 1000.0),
        (7, "k", 1000.0, 900.0),
        (7, "ncclDevKernel_AllReduce_RING_LL128", 1900.0, 350.0),
        (7, "Memcpy HtoD", 2250.0, 250.0),
    ]
    collective = next(event["args"] for event in slices if event["name"].startswith("nccl"))
    assert collective["Python line"] == OPERATION["site"]
    assert collective["waited for the last rank (us)"] == 100.0
    threads = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["name"] == "thread_name"
    }
    assert (threads[1, 7], threads[1, 1], threads[2, 3]) == ("stream 0", "host", "iterations")
    steps = [(event["name"], event["ts"]) for event in events if event.get("cat") == "iteration"]
    assert steps == [("iteration 0", 0.0), ("iteration 1", 1000.0)]


def test_arrows_lead_to_the_last_rank(tmp_path: Path) -> None:
    """Rank 0 came last to the collective; a send leads to its receiver whoever came last."""
    data = two_iterations(tmp_path / "a.phr")
    arrows = [event for event in trace(data, tmp_path / "a.json") if event["ph"] in "stf"]
    assert [(event["ph"], event["pid"], event["ts"]) for event in arrows] == [
        ("s", 1, 2000.0),
        ("f", 0, 2000.0),
    ]
    send = {**OPERATION, "kind": "send", "members": [0, 1]}
    data = two_iterations(tmp_path / "a.phr", operations=[send])
    arrows = [event for event in trace(data, tmp_path / "a.json") if event["ph"] in "stf"]
    assert [event["pid"] for event in arrows] == [0, 1]


def test_a_file_for_each_rank(tmp_path: Path) -> None:
    """For tools that read one rank a file: it names its rank, and calls lead to their kernels."""
    data = two_iterations(tmp_path / "a.phr")
    assert main(["report", str(data.path), "--trace", str(tmp_path / "traces")]) == 0
    files = sorted((tmp_path / "traces").iterdir())
    assert [file.name for file in files] == ["rank-0.json.gz", "rank-1.json.gz"]
    for rank, file in enumerate(files):
        with gzip.open(file, "rt") as content:
            assert json.load(content)["distributedInfo"]["rank"] == rank
        events = events_of(file)
        assert {event["pid"] for event in events} == {rank}
        calls = {
            event["args"]["correlation"]: event
            for event in events
            if event.get("cat") == "cuda_runtime"
        }
        work = [event for event in events if "stream" in event.get("args", {})]
        assert len(work) == len(calls) == 4
        for event in work:
            assert calls[event["args"]["correlation"]]["ts"] <= event["ts"]


def test_everything_a_span_can_be(tmp_path: Path) -> None:
    """Fills, host waits, NVTX ranges and a second GPU have their names and threads."""
    by_rank: list[list[Span]] = [[(FILL, 0, 0, 5), (HOST_WAIT, 6, 6, 9), (COPY, 10, 10, 20)]]
    markers: list[Marker] = [
        (0, 1, MarkerKind.RANGE_PUSH, "outer"),
        (0, 2, MarkerKind.RANGE_PUSH, "inner"),
        (0, 3, MarkerKind.RANGE_POP, ""),
        (0, 4, MarkerKind.RANGE_POP, ""),
        (0, 5, MarkerKind.RANGE_PUSH, "never closed"),
    ]
    spans = make_run(tmp_path / "a.phr", by_rank).spans
    spans["device"][spans["kind"] == FILL] = 1
    data = make_run(tmp_path / "a.phr", by_rank, markers, spans=spans)
    events = trace(data, tmp_path / "a.json")
    assert {"Memset (Device)", "Memcpy HtoD", "cudaStreamSynchronize", "inner", "outer"} == set(
        named(events, "X")
    )
    threads = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert {"GPU 0 stream 0", "GPU 1 stream 0"} <= set(threads)


def test_memory_counters(tmp_path: Path) -> None:
    """Bytes in use whenever they change; a part of the run begins with what was in use."""
    taken = [
        [rank, time_ns, rank, MemoryKind.DEVICE, 10, in_use_bytes, 0, "a.py:1 f"]
        for rank in (0, 1)
        for time_ns, in_use_bytes in ((100, 10), (200, 20), (2_000_000, 30), (9_000_000, 40))
    ]
    data = two_iterations(tmp_path / "a.phr", allocations=taken)

    def counted(*options: str) -> list[tuple[str, float, int]]:
        return [
            (event["name"], event["ts"], event["args"]["bytes in use"])
            for event in trace(data, tmp_path / "a.json", *options)
            if event["ph"] == "C" and event["pid"] == 1
        ]

    name = "device memory, GPU 1"
    assert counted() == [(name, 0.1, 10), (name, 0.2, 20), (name, 2000.0, 30), (name, 9000.0, 40)]
    assert counted("--trace-iterations", "1") == [(name, 1000.0, 20), (name, 2000.0, 30)]


def test_part_of_a_run(tmp_path: Path) -> None:
    """Chosen ranks and the last iterations: less in the file, nothing that refers to the rest."""
    data = two_iterations(tmp_path / "a.phr")
    part = ("--trace-ranks", "1", "--trace-iterations", "1")
    events = trace(data, tmp_path / "a.json", *part)
    assert {event["pid"] for event in events} == {1, data.ranks}
    assert named(events, "X").count("k") == 1
    assert not named(events, "s")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--trace", "a.json", "--trace-ranks", "0,7"], "there is no rank 7; the run has ranks 0"),
        (["--trace", "a.json", "--trace-iterations", "2"], "the run has 1 whole iterations"),
        (["--trace", "none/a.json"], "--trace none/a.json cannot be written: the directory"),
        (
            ["--trace", "a.pftrace", "--trace-ranks", "0,7"],
            "there is no rank 7; the run has ranks 0",
        ),
        (["--trace", "none/a.pftrace"], "--trace none/a.pftrace cannot be written: the directory"),
        (["--trace", "a.phr"], "a.phr is not a directory"),
        (["--trace-ranks", "1"], "say what --trace OUT is to write"),
    ],
)
def test_what_cannot_be_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    """Says what is wrong; the data file is never overwritten."""
    monkeypatch.chdir(tmp_path)
    two_iterations(Path("a.phr"))
    before = Path("a.phr").read_bytes()
    assert main(["report", "a.phr", *options]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert Path("a.phr").read_bytes() == before


def test_a_run_without_anything(tmp_path: Path) -> None:
    """A program that used no GPU has an empty trace, which opens."""
    events = trace(make_run(tmp_path / "a.phr", [[], []]), tmp_path / "a.json")
    assert named(events, "X") == []
