"""Who made others wait: arrivals counted by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from made_runs import make_run

from phantora_py.report.waiting import WaitingRow, waiting_rows
from phantora_py.report.window import Window

LAYOUT = "4 ranks of a node"


def operation(arrivals_ns: list[int], **changes: Any) -> dict[str, Any]:
    """An all-reduce of ranks 0 to 3 that moves for 100 ns."""
    last_ns = max(arrivals_ns)
    return {
        **{"kind": "all_reduce", "comm": 1, "bytes": 4000, "count": 1000, "dtype": 7},
        **{"members": [0, 1, 2, 3], "arrivals_ns": arrivals_ns, "moves_ns": last_ns},
        **{"ends_ns": [last_ns + 100] * 4, "site": "train.py:7 main", **changes},
    }


def rows_of(path: Path, operations: list[dict[str, Any]]) -> list[WaitingRow]:
    return waiting_rows(make_run(path, [[]] * 4, operations=operations), Window(0, 1000, 1))


def test_one_rank_is_late(tmp_path: Path) -> None:
    """The others' waits add up; of those, what was left when the last but one had come."""
    (row,) = rows_of(tmp_path / "a.phr", [operation([10, 20, 30, 70])])
    assert row == WaitingRow("3", "all_reduce", LAYOUT, "train.py:7 main", 1, 150, 40)


def test_several_are_late_together(tmp_path: Path) -> None:
    """They share a row, in whatever order they are members."""
    operations = [
        operation([70, 20, 30, 70]),
        operation([170, 120, 130, 170]),
        operation([70, 30, 20, 70], members=[3, 2, 1, 0]),
    ]
    (row,) = rows_of(tmp_path / "a.phr", operations)
    assert row == WaitingRow("0, 3", "all_reduce", LAYOUT, "train.py:7 main", 3, 270, 120)


def test_nobody_is_late(tmp_path: Path) -> None:
    """Where all come at once nobody waits; nor does a rank for itself."""
    alone = operation([10], members=[2], ends_ns=[50])
    assert rows_of(tmp_path / "a.phr", [operation([10] * 4), alone]) == []


def test_most_waited_for_first(tmp_path: Path) -> None:
    """Rows by rank, operation and Python line; what ended outside the window does not count."""
    rows = rows_of(
        tmp_path / "a.phr",
        [
            operation([10, 10, 10, 20]),
            operation([10, 10, 10, 90], site="train.py:9 main"),
            operation([10, 10, 10, 40], kind="all_gather"),
            operation([10, 10, 10, 5000]),
        ],
    )
    assert [(row.kind, row.site, row.waited_ns) for row in rows] == [
        ("all_reduce", "train.py:9 main", 240),
        ("all_gather", "train.py:7 main", 90),
        ("all_reduce", "train.py:7 main", 30),
    ]
