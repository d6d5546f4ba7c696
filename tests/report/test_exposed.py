"""Where communication goes: which operations, and what of it nothing hides."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import COMMUNICATION, KERNEL, Span, make_run, span_rows
from test_breakdown import span_lists

from phantora_py.data import RunData
from phantora_py.report.breakdown import break_down
from phantora_py.report.communication import communication_rows
from phantora_py.report.exposed import exposed_rows
from phantora_py.report.iterations import Iterations
from phantora_py.report.layout import layout_text, pair_text
from phantora_py.report.window import Window, steady_window


def _node_of(rank: int) -> int:
    return rank // 8


def operation(number: int, **changes: Any) -> dict[str, Any]:
    """An all-reduce of four ranks on two nodes, which moves for 100 ns."""
    members = changes.get("members", [0, 1, 2, 3])
    return {
        **{"kind": "all_reduce", "comm": 1, "bytes": 4000, "count": 1000, "dtype": 7},
        **{"members": members, "arrivals_ns": [10, 20, 30, 40][: len(members)], "moves_ns": 40},
        **{"ends_ns": [140] * len(members), "site": f"train.py:{number} main", **changes},
    }


def run_of(path: Path, spans: list[Span], operations: list[dict[str, Any]]) -> RunData:
    """A run of one rank; its communication spans belong to the operations in turn."""
    rows = span_rows([spans])
    communicates = np.flatnonzero(rows["kind"] == COMMUNICATION)
    rows["id"][communicates] = np.arange(len(communicates)) % max(len(operations), 1)
    return make_run(path, [spans], spans=rows, operations=operations)


@settings(max_examples=200, deadline=None)
@given(span_lists(), st.integers(0, 30), st.integers(1, 50), st.integers(0, 60))
def test_the_rows_add_up(spans: list[Span], begin_ns: int, length_ns: int, moves_ns: int) -> None:
    """Whatever overlaps: exposed communication by operation is that of the breakdown."""
    boundaries_ns = np.array([begin_ns, begin_ns + length_ns], np.int64)
    operations = [operation(number, moves_ns=moves_ns + 5 * number) for number in range(3)]
    with tempfile.TemporaryDirectory() as directory:
        data = run_of(Path(directory) / "a.phr", spans, operations)
        iterations = Iterations("marker", boundaries_ns)
        whole = break_down(data, iterations)
        rows = exposed_rows(data, steady_window(data, iterations))
    assert whole is not None
    assert sum(row.moving_ns for row in rows) == whole.exposed_communication_ns
    assert sum(row.waiting_ns for row in rows) == whole.waiting_for_ranks_ns
    assert all(row.waiting_ns >= 0 and row.moving_ns >= 0 for row in rows)
    assert all(row.exposed_ns <= row.total_ns for row in rows)


def test_waiting_and_moving(tmp_path: Path) -> None:
    """Exposed from 30, where the kernel ends; bytes move from 40 on; the second is hidden."""
    spans = [
        (KERNEL, 0, 0, 30),
        (COMMUNICATION, 0, 10, 140),
        (KERNEL, 150, 150, 300),
        (COMMUNICATION, 150, 200, 250),
    ]
    data = run_of(tmp_path / "a.phr", spans, [operation(1), operation(2, moves_ns=210)])
    rows = exposed_rows(data, Window(0, 300, 1))
    assert [(row.site, row.total_ns, row.waiting_ns, row.moving_ns) for row in rows] == [
        ("train.py:1 main", 130, 10, 100),
        ("train.py:2 main", 50, 0, 0),
    ]


def test_one_counts_at_a_time(tmp_path: Path) -> None:
    """Two operations under way: the first has the time until it ends."""
    spans = [(COMMUNICATION, 0, 10, 100), (COMMUNICATION, 0, 50, 180)]
    data = run_of(tmp_path / "a.phr", spans, [operation(1), operation(2)])
    rows = exposed_rows(data, Window(0, 150, 1))
    assert [(row.site, row.total_ns, row.exposed_ns) for row in rows] == [
        ("train.py:1 main", 90, 90),
        ("train.py:2 main", 100, 50),
    ]


def test_operations_that_are_alike(tmp_path: Path) -> None:
    """Equal kind, size and layout make a row, on whatever communicator."""
    operations = [
        operation(1, comm=1, members=[0, 1]),
        operation(2, comm=2, members=[2, 3], ends_ns=[240, 240]),
        operation(3, comm=2, members=[2, 3], ends_ns=[900, 900]),  # of another iteration
        operation(4, bytes=8000, members=[0, 1]),
        operation(4, members=[0, 1], algorithm="Ring", protocol="LL"),
        operation(5, kind="send", members=[0, 2], arrivals_ns=[10, 40]),
        operation(6, kind="broadcast", members=[0], arrivals_ns=[40]),
    ]
    two_nodes = {"nodes": 2, "gpus_per_node": 2}
    data = make_run(tmp_path / "a.phr", [[]] * 4, operations=operations, run=two_nodes)
    rows = communication_rows(data, Window(0, 500, 1))
    assert [(row.kind, row.algorithm, row.operations, row.communicators) for row in rows] == [
        ("all_reduce", "", 2, 2),
        ("all_reduce", "Ring, LL", 1, 1),
        ("all_reduce", "", 1, 1),
        ("broadcast", "", 1, 1),
        ("send", "", 1, 1),
    ]
    layouts = [row.layout for row in rows]
    assert layouts == ["2 ranks of a node"] * 3 + ["1 rank", "rank +2, on another node"]
    assert [row.waiting_ns for row in rows] == [60, 30, 30, 0, 30]


def test_bus_bandwidth(tmp_path: Path) -> None:
    """As nccl-tests: an all-reduce counts 2 (n - 1) / n times, a gather (n - 1) / n times."""
    operations = [
        operation(1),
        operation(2, kind="all_gather"),
        operation(3, kind="broadcast"),
        operation(4, kind="send", members=[0, 1], arrivals_ns=[40, 40]),
        operation(5, kind="reduce", members=[0], arrivals_ns=[40]),
    ]
    data = make_run(tmp_path / "a.phr", [[]] * 4, operations=operations)
    found = {row.kind: row.bus_bytes_per_s for row in communication_rows(data, Window(0, 500, 1))}
    assert found == pytest.approx(
        {"all_reduce": 60e9, "all_gather": 30e9, "broadcast": 40e9, "send": 40e9, "reduce": None}
    )


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ([5], "1 rank"),
        ([0, 1, 2, 3], "4 ranks of a node"),
        ([3, 1], "2 ranks of a node, every 2nd"),
        (list(range(64)), "64 ranks on 8 nodes"),
        (list(range(3, 64, 8)), "8 ranks on 8 nodes, every 8th"),
        ([0, 11, 22], "3 ranks on 3 nodes, every 11th"),
        ([0, 1, 2, 9], "4 ranks on 2 nodes: 0-2, 9"),
    ],
)
def test_layouts(members: list[int], text: str) -> None:
    """Eight GPUs a node."""
    assert layout_text(members, _node_of) == text


def test_pairs() -> None:
    """Where a send goes to, seen from where it comes from."""
    assert pair_text(3, 4, _node_of) == "rank +1, on the same node"
    assert pair_text(8, 7, _node_of) == "rank -1, on another node"
