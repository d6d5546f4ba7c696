"""How a deadlock report looks."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from phantora_py.report.deadlock import print_deadlock
from sim_server.deadlock import ranges_text

PATH = "/home/somebody/a/long/way/down/to/the/script/train.py:107 backward"
TABLE: dict[str, Any] = {
    "title": "communicator 1 (ranks 0-63), AllReduce number 2 of 4 x float32",
    "rows": [
        {
            "ranks": [rank for rank in range(64) if rank != 5],
            "state": "waits here",
            "since_ns": 161_575_030,
            "site": PATH,
        },
        {"ranks": [], "state": "1 missing; [which]", "since_ns": None, "site": ""},
    ],
}


def drawn(tables: list[dict[str, Any]], **options: Any) -> list[str]:
    """The lines of a report, without the blanks at their ends."""
    console = Console(file=io.StringIO(), **options)
    print_deadlock(console, tables)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_report_in_a_file_is_plain() -> None:
    """No colours; a row of many ranks is one line; what is not known is left empty."""
    lines = [line for line in drawn([TABLE]) if line and "─" not in line]
    title, head, arrived, missing = lines
    assert title == TABLE["title"]
    assert head.split() == ["ranks", "what", "they", "do", "since", "(virtual)", "Python", "line"]
    assert arrived.split("  ")[1] == "0-4, 6-63"
    assert "162 ms" in arrived
    assert arrived.endswith(PATH)
    assert missing.split() == ["?", "1", "missing;", "[which]"]


@pytest.mark.parametrize("width", [50, 80, 200])
def test_a_report_fits_the_terminal(width: int) -> None:
    """Long lines are folded and nothing of them is lost."""
    lines = drawn([TABLE], width=width, force_terminal=True, color_system=None)
    assert max(map(len, lines)) <= width
    assert any("backward" in line for line in lines)
    assert any("virtual" in line for line in lines)


def test_only_the_first_tables_are_shown() -> None:
    """All of them are in the data file, which is said."""
    lines = drawn([TABLE] * 20)
    assert lines.count(TABLE["title"]) == 12
    assert lines[-1] == "and 8 more, in run.json of the data file"


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([2, 0, 1], "0-2"), ([0, 1, 2, 3, 7], "0-3, 7"), ([1, 3], "1, 3")],
)
def test_ranks_are_shortened_as_ranges(numbers: list[int], text: str) -> None:
    """Sorted, neighbours together."""
    assert ranges_text(numbers) == text
