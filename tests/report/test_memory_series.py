"""Memory over time, from allocations that a test makes up."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import KERNEL, make_run
from pages import page_of, section

from phantora_py.data import RunData
from phantora_py.report.memory import LiveRow, memory_peak, memory_series
from sim_server.errors import UsageError
from sim_server.records import MemoryKind

DEVICE, CONTEXT, NCCL = MemoryKind.DEVICE, MemoryKind.CONTEXT, MemoryKind.NCCL
MIB = 1 << 20
Event = tuple[int, MemoryKind, int, int, str]
"""Time, kind, bytes, address, Python line."""

EVENTS: list[Event] = [
    (10, CONTEXT, 500 * MIB, 0, "train.py:1 main"),
    (20, NCCL, 40 * MIB, 0, "train.py:2 main"),
    (30, DEVICE, 20 * MIB, 100, "train.py:3 main"),
    (40, DEVICE, 60 * MIB, 200, "train.py:3 main"),
    (50, DEVICE, 80 * MIB, 300, "train.py:9 main"),
    (60, DEVICE, -60 * MIB, 200, ""),
    (70, NCCL, 40 * MIB, 0, "train.py:4 main"),
    (80, NCCL, -40 * MIB, 0, ""),
    (90, DEVICE, 2 * MIB, 200, "train.py:5 main"),
]


def with_allocations(path: Path, *by_rank: list[Event]) -> RunData:
    """A run of ranks that take memory."""
    rows = []
    for rank, events in enumerate(by_rank):
        in_use_bytes = 0
        for time_ns, kind, size_bytes, pointer, site in events:
            in_use_bytes += size_bytes
            rows.append([rank, time_ns, rank, int(kind), size_bytes, in_use_bytes, pointer, site])
    spans = [[(KERNEL, 0, 0, 200)]] * len(by_rank)
    return make_run(path, spans, allocations=sorted(rows, key=lambda row: row[1]))


def test_series(tmp_path: Path) -> None:
    """Ranks that go through the same sizes share one; the fullest comes first."""
    data = with_allocations(tmp_path / "a.phr", EVENTS[:3], EVENTS, EVENTS)
    full, other = memory_series(data)
    assert (full.ranks, other.ranks) == ([1, 2], [0])
    assert full.times_ns.tolist() == [event[0] for event in EVENTS]
    sizes = [500, 540, 560, 620, 700, 640, 680, 640, 642]
    assert full.in_use_bytes.tolist() == [size * MIB for size in sizes]
    assert (full.peak_bytes, other.peak_bytes) == (700 * MIB, 560 * MIB)


def test_what_lives_at_the_peak(tmp_path: Path) -> None:
    """By kind and Python line; what was given back before is not there, nor what came later."""
    data = with_allocations(tmp_path / "a.phr", EVENTS)
    peak = memory_peak(data, memory_series(data)[0])
    assert (peak.time_ns, peak.in_use_bytes) == (50, 700 * MIB)
    assert peak.rows == [
        LiveRow("context", "train.py:1 main", 1, 500 * MIB, 500 * MIB),
        LiveRow("device", "train.py:3 main", 2, 80 * MIB, 60 * MIB),
        LiveRow("device", "train.py:9 main", 1, 80 * MIB, 80 * MIB),
        LiveRow("nccl", "train.py:2 main", 1, 40 * MIB, 40 * MIB),
    ]
    later = [*EVENTS, (95, DEVICE, 300 * MIB, 400, "train.py:8 main")]
    data = with_allocations(tmp_path / "b.phr", later)
    rows = memory_peak(data, memory_series(data)[0]).rows
    assert sum(row.size_bytes for row in rows) == 942 * MIB
    assert LiveRow("nccl", "train.py:2 main", 1, 40 * MIB, 40 * MIB) in rows
    assert LiveRow("device", "train.py:3 main", 1, 20 * MIB, 20 * MIB) in rows


def test_page(tmp_path: Path) -> None:
    """A line for ranks that are alike, as steps, and the table of the peak."""
    data = with_allocations(tmp_path / "a.phr", EVENTS[:3], EVENTS, EVENTS)
    memory = section(page_of(data, tmp_path / "a.html"), "memory")
    titles = [one.text for one in memory.all("title")]
    assert titles == ["ranks 0: at most 560 MiB", "ranks 1-2: at most 700 MiB"]
    other, full = (path for path in memory.all("path") if path.attributes["class"] != "mark")
    # From 10 to 200 ns over 1000, and 160 high for 1.05 times 700 MiB.
    assert other.attributes["d"] == "M0.00 160H0.00V51.16H52.63V42.45H105.26V38.10H1000"
    assert full.attributes["d"].count("V") == len(EVENTS)
    *_, live = memory.all("table")
    assert live.rows()[0] == ["context", "train.py:1 main", "1", "500 MiB", "500 MiB", "71.4 %"]
    assert "What rank 1 had taken when it was fullest, 700 MiB at 50 ns" in memory.text


def test_many_allocations(tmp_path: Path) -> None:
    """A program that takes and gives back all the time: the picture keeps what a pixel shows."""
    churn: list[Event] = [(0, CONTEXT, 10 * MIB, 0, "")]
    for step in range(1, 6001):
        size_bytes = (900 if step == 3001 else 100) * MIB
        churn.append((2 * step, DEVICE, size_bytes, 100, "train.py:3 main"))
        churn.append((2 * step + 1, DEVICE, -size_bytes, 100, ""))
    data = with_allocations(tmp_path / "a.phr", churn)
    memory = section(page_of(data, tmp_path / "a.html"), "memory")
    (line,) = (path for path in memory.all("path") if path.attributes["class"] != "mark")
    assert line.attributes["d"].count("V") <= 1001
    assert "V7.62" in line.attributes["d"]  # 910 MiB


def test_earlier_versions(tmp_path: Path) -> None:
    """A file without allocations says so."""
    page = page_of(make_run(tmp_path / "a.phr", [[(KERNEL, 0, 0, 9)]]), tmp_path / "a.html")
    assert "Memory over time is not in this file" in section(page, "memory").text


def test_memory_that_was_taken_and_is_not_in_use(tmp_path: Path) -> None:
    """The file is refused: shares of nothing cannot be told."""
    rows = [[0, 10, 0, int(DEVICE), MIB, 0, 100, "train.py:1 main"]]
    data = make_run(tmp_path / "a.phr", [[(KERNEL, 0, 0, 200)]], allocations=rows)
    (series,) = memory_series(data)
    with pytest.raises(UsageError, match=r"a\.phr is damaged: allocations: rank 0 has taken"):
        memory_peak(data, series)
