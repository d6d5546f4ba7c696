"""A sharding plan as a page: `phantora plan --html OUT.html`, which draws what each rank has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phantora_py import __version__
from phantora_py.report.page.template import fill

_ASSETS = Path(__file__).parent / "assets"
# Neighbours in the list of tables get hues far apart.
_HUE_STEP = 137.5


def make_placement_page(summary: Mapping[str, Any], name: str) -> str:
    """The page of what `phantora_py.plan.summary.summarise` says. `name`: of the tables' file."""
    hues = {one["table"]: _HUE_STEP * n % 360 for n, one in enumerate(summary["tables"])}
    rules = sorted((time_ns, rule) for rule, time_ns in summary["baselines_ns"].items())
    views = {
        "version": __version__,
        "title": f"{name} - phantora plan",
        "name": name,
        "summary": summary,
        "ranks": _ranks(summary, hues),
        "hues": hues,
        "rules": [(rule, time_ns) for time_ns, rule in rules if time_ns < float("inf")],
        "has_host": any(one["host_memory_bytes"] for one in summary["tables"]),
    }
    return fill("placement.html", views, _ASSETS)


def _ranks(summary: Mapping[str, Any], hues: Mapping[str, float]) -> list[dict[str, Any]]:
    """Bars to one scale: the lookups of each rank by table, forward and backward."""
    times_ns = [one["forward_ns"] + one["backward_ns"] for one in summary["ranks"]]
    longest_ns = max(times_ns) or 1
    parts = [list(_parts(summary, hues, one["rank"])) for one in summary["ranks"]]
    return [
        {
            **one,
            "node": one["rank"] // summary["gpus_per_node"],
            "time_ns": time_ns,
            "width": 100 * time_ns / longest_ns,
            "parts": of_rank,
            # Dense gradients and the optimizer of copies.
            "rest_ns": max(0.0, time_ns - sum(part[1] for part in of_rank)),
            "memory_share": one["memory_bytes"] / summary["memory_limit_bytes"],
        }
        for one, time_ns, of_rank in zip(summary["ranks"], times_ns, parts, strict=True)
    ]


def _parts(
    summary: Mapping[str, Any], hues: Mapping[str, float], rank: int
) -> list[tuple[Mapping[str, Any], float, float]]:
    """Table, time and hue; the longest first."""
    found = [
        (one, one["forward_ns"] + one["backward_ns"], hues[one["table"]])
        for one in summary["tables"]
        if rank in one["ranks"]
    ]
    return sorted(found, key=lambda part: -part[1])
