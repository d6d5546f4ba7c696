"""The timeline's columns: what every rank does when, and what is merged when there is too much."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import COMMUNICATION, COPY, FILL, HOST_WAIT, KERNEL, Span, make_run, span_rows
from test_breakdown import span_lists

from phantora_py.report.breakdown import break_down
from phantora_py.report.iterations import Iterations
from phantora_py.report.page.timeline_data import timeline_data
from phantora_py.report.timeline import Category, Columns, Timeline, make_timeline
from phantora_py.report.window import Window

OPERATION = {
    **{"kind": "all_reduce", "comm": 1, "bytes": 2 << 20, "count": 1 << 19, "dtype": 7},
    **{"members": [0, 1], "arrivals_ns": [60, 70], "moves_ns": 70, "ends_ns": [90, 90]},
    "site": "train.py:7 main",
}
Row = tuple[str, list[tuple[int, int, str]]]


def timeline_of(path: Path, by_rank: list[list[Span]], window: Window, **changes: Any) -> Timeline:
    rows = span_rows(by_rank)
    rows["stream"][rows["kind"] == COMMUNICATION] = 4
    data = make_run(path, by_rank, spans=rows, operations=[OPERATION])
    return make_timeline(data, window, **changes)


def rows_of(timeline: Timeline, rank: int) -> list[Row]:
    """The tracks of a rank: label, and start, end and text of each span."""
    return [
        (
            track.label,
            [
                (int(start), int(end), timeline.names[name].text)
                for start, end, name in zip(
                    columns.starts_ns, columns.ends_ns, columns.names, strict=True
                )
            ],
        )
        for track in timeline.tracks[rank]
        for columns in [timeline.columns[track.columns]]
    ]


def test_tracks(tmp_path: Path) -> None:
    """Device, streams and host, cut at the window's edges, from its begin on."""
    spans = [
        (KERNEL, 0, 0, 5),  # before
        (KERNEL, 0, 5, 30),
        (COPY, 30, 40, 50),
        (FILL, 30, 50, 55),
        (COMMUNICATION, 30, 60, 90),
        (HOST_WAIT, 50, 50, 90),
        (KERNEL, 95, 95, 200),
    ]
    timeline = timeline_of(tmp_path / "a.phr", [spans], Window(10, 110, 1))
    assert rows_of(timeline, 0) == [
        (
            "device",
            [
                *((0, 20, "compute"), (30, 45, "compute"), (50, 60, "waiting for ranks")),
                (60, 80, "exposed communication"),
                *((80, 85, "waits for its host"), (85, 100, "compute")),
            ],
        ),
        (
            "stream 0",
            [
                *((0, 20, "k"), (30, 40, "copy, host to device")),
                *((40, 45, "fill of device memory"), (85, 100, "k")),
            ],
        ),
        (
            "stream 4",
            [
                (50, 60, "all_reduce 2.00 MiB: waits for the last rank"),
                (60, 80, "all_reduce 2.00 MiB"),
            ],
        ),
        ("host waits", [(40, 80, "host waits: stream")]),
    ]
    notes = {name.text: name.note for name in timeline.names}
    assert notes["k"] == "gemm, modelled"
    assert notes["all_reduce 2.00 MiB"].endswith("; train.py:7 main")


def test_ranks_that_do_the_same_share(tmp_path: Path) -> None:
    """Columns are there once, however many ranks have them."""
    spans = [(KERNEL, 0, 0, 30), (KERNEL, 30, 40, 50)]
    by_rank = [spans, spans, [(KERNEL, 0, 0, 30), (KERNEL, 30, 40, 51)]]
    timeline = timeline_of(tmp_path / "a.phr", by_rank, Window(0, 100, 1))
    assert len(timeline.columns) == 5  # that of the path is empty
    assert timeline.tracks[0] == timeline.tracks[1] != timeline.tracks[2]


def test_nothing_ran(tmp_path: Path) -> None:
    """A rank without work has an empty device."""
    timeline = timeline_of(tmp_path / "a.phr", [[]], Window(0, 100, 1))
    assert rows_of(timeline, 0) == [("device", [])]


def lasted_ns(timeline: Timeline, columns: Columns, text: str) -> int:
    names = [number for number, name in enumerate(timeline.names) if name.text == text]
    chosen = np.isin(columns.names, names)
    return int((columns.ends_ns - columns.starts_ns)[chosen].sum())


@settings(max_examples=200, deadline=None)
@given(span_lists(), st.integers(0, 30), st.integers(1, 50))
def test_the_device_is_the_breakdown(spans: list[Span], begin_ns: int, length_ns: int) -> None:
    """The device's track has compute, exposed communication and host gaps of the breakdown."""
    with tempfile.TemporaryDirectory() as directory:
        data = make_run(Path(directory) / "a.phr", [spans], operations=[OPERATION])
        window = Window(begin_ns, begin_ns + length_ns, 1)
        boundaries_ns = np.array([window.begin_ns, window.end_ns], np.int64)
        expected = break_down(data, Iterations("marker", boundaries_ns))
        timeline = make_timeline(data, window)
    device = timeline.columns[timeline.tracks[0][0].columns]
    assert expected is not None
    assert [
        lasted_ns(timeline, device, text)
        for text in ("compute", "exposed communication", "waiting for ranks", "waits for its host")
    ] == [
        expected.compute_ns,
        expected.exposed_communication_ns,
        expected.waiting_for_ranks_ns,
        expected.host_ns,
    ]


def test_too_many_spans(tmp_path: Path) -> None:
    """Short neighbours become one, as the longest of them; long ones stay; the picture says so."""
    short = [(KERNEL, 0, 2_000 * i, 2_000 * i + 600 + i) for i in range(20)]
    spans = [
        *short,
        (COPY, 0, 40_000, 60_000),
        (COPY, 0, 60_100, 60_200),
        (KERNEL, 0, 60_300, 60_900),
    ]
    window = Window(0, 100_000, 1)
    whole = timeline_of(tmp_path / "a.phr", [spans], window)
    assert whole.merged_below_ns == 0
    merged = timeline_of(tmp_path / "a.phr", [spans], window, most_spans=30)
    assert merged.merged_below_ns == 2_000
    assert rows_of(merged, 0)[1] == (
        "stream 0",
        [
            *((0, 38_619, "several short ones"), (40_000, 60_000, "copy, host to device")),
            (60_100, 60_900, "several short ones"),
        ],
    )
    last = merged.names[merged.columns[merged.tracks[0][1].columns].names[-1]]
    assert last.category is Category.COMPUTE
    assert last.note == "merged for this picture: each shorter than 2.00 us"


@settings(max_examples=100, deadline=None)
@given(span_lists(), st.integers(1, 6))
def test_merging_ends(spans: list[Span], most_spans: int) -> None:
    """However few are allowed: it stops, and no span is left uncovered."""
    with tempfile.TemporaryDirectory() as directory:
        data = make_run(Path(directory) / "a.phr", [spans], operations=[OPERATION])
        whole = make_timeline(data, Window(0, 100, 1))
        merged = make_timeline(data, Window(0, 100, 1), most_spans=most_spans)
    for before, after in zip(whole.columns, merged.columns, strict=True):
        for start, end in zip(before.starts_ns, before.ends_ns, strict=True):
            assert ((after.starts_ns <= start) & (after.ends_ns >= end)).any()


def test_what_the_page_reads(tmp_path: Path) -> None:
    """Little-endian 32-bit integers; what has more ns than they hold counts in larger units."""
    spans = [(KERNEL, 0, 8_000_000_000, 9_000_000_000)]
    timeline = timeline_of(tmp_path / "a.phr", [spans], Window(0, 9_000_000_000, 1))
    data = timeline_data(timeline)
    assert data["unit_ns"] == 3
    assert data["names"][0] == [0, "compute", ""]
    columns = data["columns"][data["tracks"][0][0][1]]
    decoded = {key: np.frombuffer(base64.b64decode(columns[key]), "<u4") for key in columns}
    assert decoded["starts"].tolist() == [2_666_666_666]
    assert decoded["durations"].tolist() == [333_333_333]
    assert decoded["names"].tolist() == [0]
