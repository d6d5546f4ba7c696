"""The critical path of the last iteration, by what it is made of."""

from __future__ import annotations

from typing import Any, TypedDict

from phantora_py.report.critical_path import critical_path, times_by_cause
from phantora_py.report.findings import Findings
from phantora_py.report.page.part import PageFindings, PagePart
from phantora_py.report.page.path import path_tables
from phantora_py.report.window import last_iteration
from phantora_py.text.units import percent_text


class PathSummary(TypedDict):
    """The critical path of the last iteration (docs/report.md)."""

    length_ns: int
    by_cause_ns: dict[str, int]
    """`kernels`, `copies`, `communication`, `host`, `waiting`."""
    ranks: list[int]
    """Those that it lies on."""


def make(found: Findings) -> PathSummary | None:
    """None if there is no iteration after the first, or the run broke off."""
    if not found.iterations.count or found.data.broke_off:
        return None
    steps = critical_path(found.data, last_iteration(found.data, found.iterations))
    times_ns = times_by_cause(steps)
    return {
        "length_ns": sum(times_ns.values()),
        "by_cause_ns": times_ns,
        "ranks": sorted({step.rank for step in steps}),
    }


def lines(path: PathSummary | None) -> list[str]:
    """On a terminal."""
    if path is None or not path["length_ns"]:
        return []
    parts = [
        f"{cause} {percent_text(time_ns / path['length_ns'])}"
        for cause, time_ns in path["by_cause_ns"].items()
        if time_ns
    ]
    return [f"  critical path   {'   '.join(parts)}   (of the last iteration)"]


def _views(found: PageFindings) -> dict[str, Any]:
    return path_tables(found.data, found.path)


PAGE = PagePart("path", "Critical path", _views)
