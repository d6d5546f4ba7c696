"""A comparison as a page: `phantora compare A B ... --html OUT.html`. It looks like the report's,
and is as closed: one file, nothing fetched.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from phantora_py import __version__
from phantora_py.compare.figures import (
    collective_text,
    figure_columns,
    kernel_text,
    least_ns,
    signed_text,
)
from phantora_py.compare.json_types import (
    Changes,
    ComparedIteration,
    ComparedRun,
    JudgedComparison,
)
from phantora_py.report.page.template import fill
from phantora_py.report.sections.breakdown import exclusive_ns

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
        "bars": [_bar(run, _longest_ns(runs)) for run in runs],
        "changes": [
            {"number": number, **_changes(runs[0], changes)}
            for number, changes in enumerate(comparison["changes"], 1)
        ],
    }
    return fill("comparison.html", views, _ASSETS)


def _longest_ns(runs: Sequence[ComparedRun]) -> int:
    """What the full width of the bars is."""
    known = [run["iteration"] for run in runs if run["iteration"]]
    return max((max(_range_ns(one)[1], *one["per_iteration_ns"]) for one in known), default=1) or 1


def _range_ns(iteration: ComparedIteration) -> list[int]:
    """The run's interval, as its report has it; the spread of the iterations where the models'
    errors are not known.
    """
    known = iteration["model_interval_ns"] or iteration["interval_ns"]
    return list(known or [iteration["median_ns"]] * 2)


def _bar(run: ComparedRun, longest_ns: int) -> dict[str, Any]:
    """Places in percent of the width. The parts are those of the mean iteration, drawn as long as
    the median one is.
    """
    iteration = run["iteration"]
    if not iteration:
        return {"name": run["name"], "iteration": None}

    def place(time_ns: float) -> float:
        return 100 * time_ns / longest_ns

    parts_ns = exclusive_ns(run["breakdown_ns"])
    whole_ns = sum(parts_ns.values()) or 1
    low_ns, high_ns = _range_ns(iteration)
    return {
        "name": run["name"],
        "iteration": iteration,
        "range_ns": None if low_ns == high_ns else [low_ns, high_ns],
        "width": place(iteration["median_ns"]),
        "parts": [
            (name.replace("_", " "), time_ns, time_ns / whole_ns)
            for name, time_ns in parts_ns.items()
        ],
        "low": place(low_ns),
        "high": place(high_ns),
        "ticks": [(place(time_ns), time_ns) for time_ns in iteration["per_iteration_ns"]],
    }


def _changes(first: ComparedRun, changes: Changes) -> dict[str, Any]:
    """Rows of the tables; those that moved by less than the least that the terminal shows are
    counted alone.
    """
    shown: dict[str, Any] = {"name": changes["name"], "inputs": changes["inputs"], "left_out": 0}
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
