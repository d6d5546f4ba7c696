"""Where the time goes in the model: modules by phase, and flame graphs of them."""

from __future__ import annotations

from typing import Any, TypedDict

from rich.markup import escape

from phantora_py.data.rows import PHASES
from phantora_py.report.findings import Findings
from phantora_py.report.modules import OTHER
from phantora_py.report.page.flame import boxes
from phantora_py.report.page.part import PageFindings, PagePart
from phantora_py.text.units import duration_text, percent_text

# Rows on a terminal.
_MOST = 8
_OUTSIDE = "(no module)"


class ModuleScope(TypedDict):
    """What was issued for a module in a phase, without what modules in it did. Means over GPUs and
    iterations, or of the whole run if no iteration was found.
    """

    path: str
    """As `GPT.blocks.0.attention`; of the phase `optimizer` its class; empty: for no module."""
    phase: str
    """`forward`, `recomputation`, `backward`, `optimizer` or `other`."""
    launches: float
    """Kernels, copies and fills."""
    gpu_ns: float
    """That these take."""
    communication_ns: float
    """Of operations that were issued for it, also where they are hidden."""
    exposed_ns: float
    """Of these, while nothing is computed."""


class ModuleTimes(TypedDict):
    """Where the time goes in the model (docs/report.md)."""

    named_share: float
    """So much of the GPU time belongs to a module or a phase other than `other`."""
    scopes: list[ModuleScope]
    """Most GPU time first."""


def make(found: Findings) -> ModuleTimes | None:
    """None where nothing is known of modules."""
    times = found.scopes
    if not times:
        return None
    scopes: list[ModuleScope] = [
        {
            "path": path,
            "phase": phase,
            "launches": one.launches,
            "gpu_ns": one.gpu_ns,
            "communication_ns": one.communication_ns,
            "exposed_ns": one.exposed_ns,
        }
        for (phase, path), one in times.items()
    ]
    scopes.sort(key=lambda one: (-one["gpu_ns"], -one["exposed_ns"], one["path"], one["phase"]))
    whole_ns = sum(one["gpu_ns"] for one in scopes)
    other_ns = times[OTHER].gpu_ns if OTHER in times else 0.0
    return {"named_share": 1 - other_ns / whole_ns if whole_ns else 0.0, "scopes": scopes}


def lines(made: ModuleTimes | None) -> list[str]:
    """On a terminal."""
    if made is None:
        return []
    rows = table(made)
    whole_ns = sum(row["gpu_ns"] for row in rows) or 1.0
    width = max(len(row["name"]) for row in rows[:_MOST])
    said = [f"  modules    {percent_text(made['named_share'])} of GPU time has a module or a phase"]
    for row in rows[:_MOST]:
        times_ns = {**row["phases_ns"], "exposed communication": row["exposed_ns"]}
        parts = "   ".join(f"{name} {duration_text(one)}" for name, one in times_ns.items() if one)
        time = f"{duration_text(row['gpu_ns']):>8} {percent_text(row['gpu_ns'] / whole_ns):>6}"
        said.append(f"    {escape(row['name']):{width}}   {time}   {parts}")
    if len(rows) > _MOST:
        left_ns = sum(row["gpu_ns"] for row in rows[_MOST:])
        said.append(f"    and {len(rows) - _MOST} more, {percent_text(left_ns / whole_ns)}")
    return said


def table(made: ModuleTimes) -> list[dict[str, Any]]:
    """Equal modules of a list as one row: its number is `*`. Most GPU time first."""
    rows: dict[str, dict[str, Any]] = {}
    for one in made["scopes"]:
        name = alike_name(one["path"])
        row = rows.setdefault(
            name,
            {
                "name": name,
                "gpu_ns": 0.0,
                "exposed_ns": 0.0,
                "communication_ns": 0.0,
                "launches": 0.0,
                "phases_ns": dict.fromkeys(PHASES, 0.0),
            },
        )
        for key in ("gpu_ns", "exposed_ns", "communication_ns", "launches"):
            row[key] += one[key]
        row["phases_ns"][one["phase"]] += one["gpu_ns"]
    return sorted(rows.values(), key=lambda row: (-row["gpu_ns"], row["name"]))


def _phases(rows: list[dict[str, Any]]) -> list[str]:
    """In which there is GPU time."""
    return [phase for phase in PHASES if any(row["phases_ns"][phase] for row in rows)]


def alike_name(path: str) -> str:
    """What equal modules of a list have in common."""
    name = ".".join("*" if part.isdigit() else part for part in path.split("."))
    return name or _OUTSIDE


def path_order(path: str) -> list[tuple[int, str]]:
    """To sort paths by: numbers in them by value."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in path.split(".")]


def in_order(phase: str, path: str) -> tuple[int, list[tuple[int, str]]]:
    """To sort modules by: phases as they follow each other."""
    return PHASES.index(phase), path_order(path)


def _views(found: PageFindings) -> dict[str, Any]:
    made = make(found)
    if made is None:
        return {}
    scopes = sorted(made["scopes"], key=lambda one: in_order(one["phase"], one["path"]))
    paths = [(one["phase"], *filter(None, one["path"].split("."))) for one in scopes]
    values = {
        "GPU time": [one["gpu_ns"] for one in scopes],
        "Exposed communication": [one["exposed_ns"] for one in scopes],
    }
    graphs = [
        {
            "title": title,
            "levels": boxes(dict(zip(paths, times_ns, strict=True))),
            "whole_ns": sum(times_ns),
        }
        for title, times_ns in values.items()
        if any(times_ns)
    ]
    rows = table(made)
    return {
        "module_rows": rows,
        "module_graphs": graphs,
        "phases": _phases(rows),
        "phase_classes": {phase: phase for phase in PHASES},
    }


PAGE = PagePart(
    "modules",
    "Modules",
    _views,
    is_shown=lambda found: bool(found.scopes),
)
