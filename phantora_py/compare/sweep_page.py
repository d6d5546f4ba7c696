"""A sweep as a page: `phantora sweep ... --html OUT.html`. Its figures are those of the terminal's
table; its rows are all configurations, in the order of the plan.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from phantora_py import __version__
from phantora_py.compare.bars import iteration_bars
from phantora_py.compare.comparison import not_finished_text
from phantora_py.compare.fastest import fastest_text
from phantora_py.compare.figures import (
    ENDED,
    FRONT,
    INTERVAL,
    ITERATION,
    NONE,
    Column,
    figure_columns,
    front_text,
)
from phantora_py.compare.json_types import SweepComparison
from phantora_py.report.page.template import fill
from phantora_py.sweep.results import Result

_ASSETS = Path(__file__).parent / "assets"
# What is no column of the page, which would be too wide: the bar has the interval.
_BESIDE_NAMES = (INTERVAL, ENDED, FRONT)


def make_sweep_page(
    comparison: SweepComparison, ended: Sequence[Result], name: str, command: Sequence[str]
) -> str:
    """The page of a sweep. `ended`: how each configuration did, in the order of the plan. `name`,
    `command`: of the plan, with its placeholders.
    """
    runs, fastest = comparison["runs"], comparison["fastest"]
    columns = figure_columns(runs)
    places = {run["name"]: place for place, run in enumerate(runs)}
    bars = iteration_bars(runs)
    failures = [
        not_finished_text(one.name, one.exit_code, one.message) for one in ended if one.exit_code
    ]
    views = {
        "version": __version__,
        "title": f"{name} - phantora sweep",
        "name": name,
        "command": shlex.join(command),
        "iteration_title": ITERATION,
        "columns": [one for one in columns if one.title not in _BESIDE_NAMES],
        "rows": [_row(result, columns, places.get(result.name), bars) for result in ended],
        "baseline": runs[0]["name"] if runs and runs[0]["exit_code"] == 0 else None,
        "fastest": fastest and {"name": fastest["name"], "text": fastest_text(fastest)},
        "front_text": front_text(runs),
        "failures": failures,
        "notes": [note for note in comparison["notes"] if note not in failures],
    }
    return fill("sweep.html", views, _ASSETS)


def _row(
    result: Result, columns: Sequence[Column], place: int | None, bars: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """A configuration. `place`: among the runs of the comparison; None if it left no data file."""
    cells: dict[str, tuple[str, float | None]] = {one.title: (NONE, None) for one in columns}
    if place is None:
        end = "out of memory" if result.out_of_memory else f"exit code {result.exit_code}"
        return {"name": result.name, "cells": cells, "bar": None, "end": end, "front": ""}
    for one in columns:
        cells[one.title] = one.texts[place], one.values[place] if one.values else None

    def mark(title: str) -> str:
        return cells.get(title, (NONE, None))[0].removeprefix(NONE)

    return {
        "name": result.name,
        "cells": cells,
        "bar": bars[place] if bars[place]["iteration"] else None,
        "end": mark(ENDED),
        "front": mark(FRONT),
    }
