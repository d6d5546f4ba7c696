"""The table of runs in terminals of any width."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from phantora_py.compare.figures import Column
from phantora_py.compare.figures_table import figures_tables

NAMES = ["batch=16 a100", "batch=4 h100"]
COLUMNS = [
    Column("GPUs", ["2 a100", "2 h100"]),
    Column("virtual iteration", ["49.6 ms", "22.6 ms"]),
    Column("peak memory", ["12.88 GiB (11.1 %)", "3.61 GiB (4.5 %)"]),
    Column("cost per million tokens", ["0.00434", "0.00382"]),
]


def printed(names: list[str], width: int) -> list[list[str]]:
    """The lines of each table."""
    shown = []
    for table in figures_tables(names, COLUMNS, width):
        console = Console(width=width, file=io.StringIO())
        console.print(table)
        lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        assert all(len(line) <= width for line in lines)
        shown.append([line.rstrip() for line in lines])
    return shown


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
def test_no_figure_is_broken(width: int) -> None:
    """Every name stands beside its figures, in however many tables."""
    rows = {name: "" for name in NAMES}
    for lines in printed(NAMES, width):
        for name in NAMES:
            (row,) = (line for line in lines if line.strip().startswith(name))
            rows[name] += row.strip().removeprefix(name)
    for place, name in enumerate(NAMES):
        assert rows[name].split() == " ".join(one.texts[place] for one in COLUMNS).split()


def test_titles_give_way_first() -> None:
    """One line, then two, then several tables."""
    (wide,) = printed(NAMES, 100)
    assert " ".join(wide[0].split()) == "GPUs virtual iteration peak memory cost per million tokens"
    (narrow,) = printed(NAMES, 80)
    assert [line.split() for line in narrow[:2]] == [
        ["virtual", "cost", "per"],
        ["GPUs", "iteration", "peak", "memory", "million", "tokens"],
    ]
    assert len(printed(NAMES, 60)) == 2


def test_long_names() -> None:
    """Are broken, and leave half of the room to the figures."""
    for lines in printed(["x" * 90, "y"], 60):
        assert sum(line.count("x") for line in lines) == 90
