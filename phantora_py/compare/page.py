"""A comparison as a page: `phantora compare A B ... --html OUT.html`. It looks like the report's,
and is as closed: one file, nothing fetched.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from phantora_py import __version__
from phantora_py.compare.bars import iteration_bars
from phantora_py.compare.figures import (
    collective_text,
    figure_columns,
    kernel_text,
    least_ns,
    signed_text,
)
from phantora_py.compare.json_types import (
    Changes,
    ComparedRun,
    JudgedComparison,
)
from phantora_py.compare.module_changes import flame_levels
from phantora_py.report.page.template import fill

_ASSETS = Path(__file__).parent / "assets"


def make_comparison_page(comparison: JudgedComparison) -> str:
    """The page of what `comparison.compare` found, with its gates."""
    runs = comparison["runs"]
    views = {
        "version": __version__,
        "title": f"{', '.join(run['name'] for run in runs)} - phantora compare",
        "names": [run["name"] for run in runs],
        "commands": {run["name"]: shlex.join(run["command"]) for run in runs},
        "columns": figure_columns(runs),
        "notes": comparison["notes"],
        "gates": comparison["gates"],
        "bars": iteration_bars(runs),
        "changes": [
            {"number": number, **_changes(runs[0], changes)}
            for number, changes in enumerate(comparison["changes"], 1)
        ],
    }
    return fill("comparison.html", views, _ASSETS)


def _changes(first: ComparedRun, changes: Changes) -> dict[str, Any]:
    """Rows of the tables; those that moved by less than the least that the terminal shows are
    counted alone.
    """
    shown: dict[str, Any] = {
        "name": changes["name"],
        "inputs": changes["inputs"],
        "flame": flame_levels(changes["modules"]),
        "left_out": 0,
    }
    # Tables of several types, gone through alike.
    tables: list[tuple[str, Sequence[Any], Callable[[Any], str], str]] = [
        ("kernel_classes", changes["kernel_classes"], kernel_text, "time_ns"),
        ("kernels", changes["kernels"], kernel_text, "time_ns"),
        ("collectives", changes["collectives"], collective_text, "moving_ns"),
    ]
    for table, changed, text, time in tables:
        rows = []
        for row in changed:
            change_ns = row["this"][time] - row["first"][time]
            if abs(change_ns) <= least_ns(first):
                shown["left_out"] += table != "kernel_classes"
                continue
            rows.append(
                {
                    **row,
                    "change_ns": change_ns,
                    "change": signed_text(change_ns),
                    "texts": [text(row["first"]), text(row["this"])],
                    "first_ns": row["first"][time],
                    "this_ns": row["this"][time],
                    "news": _news(row),
                }
            )
        widest_ns = max((abs(row["change_ns"]) for row in rows), default=1) or 1
        for row in rows:
            row["reach"] = 50 * abs(row["change_ns"]) / widest_ns
        shown[table] = rows
    return shown


def _news(row: Mapping[str, Any]) -> str:
    """Whether one of the two has it at all."""
    if not row["first"]["count"]:
        return "new"
    return "" if row["this"]["count"] else "gone"
