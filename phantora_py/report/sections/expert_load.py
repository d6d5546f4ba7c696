"""Routings of tokens to experts, and other choices, that were made up."""

from __future__ import annotations

from typing import TypedDict

from rich.markup import escape

from phantora_py.report.findings import Findings
from phantora_py.report.sections.words import counted


class ExpertLoad(TypedDict):
    """What the distribution of --expert-load was used for (docs/decisions/small-operations.md)."""

    name: str
    """The distribution."""
    routings: int
    """By top-k or argmax, made up with it."""
    experts: list[int]
    """Numbers of experts among which these chose."""
    others: int
    """Routings among other numbers of experts, of which it says nothing: they were even."""


def make(found: Findings) -> ExpertLoad | None:
    """None: the file is older than that."""
    data = found.data
    if "expert_load" not in data.run:
        return None
    return {
        "name": data.run["expert_load"]["name"],
        "routings": sum(one["calls"] for one in data.routing if one["follows"]),
        "experts": sorted({one["experts"] for one in data.routing if one["follows"]}),
        "others": sum(one["calls"] for one in data.routing if not one["follows"]),
    }


def lines(load: ExpertLoad | None) -> list[str]:
    """Also whether the distribution that was asked for was any use."""
    if load is None or (load["name"] == "uniform" and not load["routings"]):
        return []
    among = " or ".join(map(str, load["experts"]))
    if load["name"] == "uniform":  # Whether it is experts that are chosen nobody has said.
        made_up = f"{load['routings']:,} made up, by top-k or argmax of unknown values, evenly"
        return [f"  choices    {made_up}, among {among}"]
    line = (
        f"  experts    load {escape(load['name'])}: {counted(load['routings'], 'routing')} made up"
    )
    line += f", among {among}" if among else ""
    if load["others"]:
        line += f"; [red]{load['others']:,} among other numbers of experts were even[/]"
    elif not load["routings"]:
        line += " [red](no top-k or argmax of unknown values was met)[/]"
    return [line]
