"""Whether the host decides the iteration time, or could."""

from __future__ import annotations

from typing import Any, TypedDict

from rich.markup import escape

from phantora_py.data import RunData
from phantora_py.report.findings import Findings
from phantora_py.report.host_load import SLOW_LAUNCH_NS
from phantora_py.report.page.flame import boxes
from phantora_py.report.page.part import PageFindings, PagePart
from phantora_py.report.sections import path
from phantora_py.text.units import duration_text, percent_text
from sim_server.log.host_gaps import by_stack

_BOUND = 0.5
_SHOWN = 3
_ROWS = 40
_PYTHON = "Python"
_NO_PYTHON = "threads without Python (autograd)"


class CountedFunction(TypedDict):
    """A Python function, with --host-time counted."""

    function: str
    share: float
    """Of the host time that was charged: what ended while it was the innermost."""


class CountedStack(TypedDict):
    """Python functions, each called by the one before it, with --host-time counted."""

    functions: list[str]
    share: float
    """Of the host time that was charged: what ended while the last was the innermost."""


class HostWork(TypedDict):
    """The host's part of an iteration."""

    critical_share: float
    """Of the critical path of the last iteration."""
    busy_ns: int
    """Of an iteration, per rank: neither a wait for the GPU nor for others; the GPU's work may hide
    it.
    """
    launches: float
    """Work given to the GPU in an iteration, per rank."""
    could_bound: bool
    """The host does not decide, and could. The model does not see the program's own work: so many
    launches come in so short a time that a host with hooks is not known to keep up. Or it counts
    it, and a host that is busy for as long as the processor's interval allows would not keep up.
    """
    cpu: str | None
    """With --host-time counted: the processor."""
    functions: list[CountedFunction]
    """Those that most host time was charged to."""
    stacks: list[CountedStack]
    """All, the greatest share first; those with less than a five-hundredth, with what they call,
    count for their callers. The rest of the time is of threads that run no Python.
    """


def make(found: Findings) -> HostWork | None:
    """None without iterations, and if the run broke off."""
    summary = path.make(found)
    if summary is None or not summary["length_ns"] or found.median_ns is None:
        return None
    data = found.data
    load = found.host_load
    share = summary["by_cause_ns"].get("host", 0) / summary["length_ns"]
    cpu = data.run.get("cpu")
    most_ns = load.launches * SLOW_LAUNCH_NS if load.is_blind else 0.0
    if cpu:
        most_ns = load.most_ns(cpu["interval"][1])
    return {
        "critical_share": share,
        "busy_ns": round(load.busy_ns),
        "launches": load.launches,
        "could_bound": share < _BOUND and most_ns > found.median_ns,
        "cpu": cpu and cpu["title"],
        "functions": _functions(data) if cpu else [],
        "stacks": _stacks(data) if cpu else [],
    }


def _charged_ns(data: RunData) -> int:
    """In all; 0 if nothing was counted."""
    counted = data.host_gaps.get("counted", {"works": {}, "calls": {}})
    totals = (*counted["works"].values(), *counted["calls"].values())
    return sum(one["charged_ns"] for one in totals)


def _functions(data: RunData) -> list[CountedFunction]:
    whole_ns = _charged_ns(data)
    if not whole_ns:
        return []
    return [
        {"function": name, "share": min(charged_ns / whole_ns, 1.0)}
        for name, charged_ns in data.host_gaps["counted"]["functions"]
    ]


def stacks_ns(data: RunData) -> dict[tuple[str, ...], int]:
    """What was charged while the last function of each was the innermost; empty without counted
    host time, and in files of earlier versions.
    """
    return by_stack(data.host_gaps.get("counted", {}).get("stacks", []))


def _stacks(data: RunData) -> list[CountedStack]:
    whole_ns = _charged_ns(data)
    own = sorted(stacks_ns(data).items(), key=lambda one: (-one[1], one[0]))
    return [
        {"functions": list(functions), "share": min(charged_ns / whole_ns, 1.0)}
        for functions, charged_ns in own
        if charged_ns and whole_ns
    ]


def lines(work: HostWork | None) -> list[str]:
    """On a terminal."""
    if work is None:
        return []
    said = []
    if work["critical_share"] >= _BOUND:
        said.append(
            "  [bold]bound by the host[/]   "
            f"{percent_text(work['critical_share'])} of the critical path; docs/host-time.md says "
            "what helps"
        )
    if work["could_bound"] and work["cpu"]:
        said.append(
            f"  [yellow]the host could decide[/]   it is busy for {duration_text(work['busy_ns'])} "
            f"of an iteration, and {escape(work['cpu'])} may take longer than the model says"
        )
    elif work["could_bound"]:
        said.append(
            f"  [yellow]the host could decide[/]   {work['launches']:,.0f} launches an iteration: "
            f"with hooks, hosts have taken {duration_text(SLOW_LAUNCH_NS)} for each; "
            "try --host-time counted"
        )
    if work["functions"]:
        most = "   ".join(
            f"{escape(_short(one['function']))} {percent_text(one['share'])}"
            for one in work["functions"][:_SHOWN]
        )
        said.append(f"  host time by function   {most}")
    elif work["cpu"]:
        said.append("  host time by function   not known: ranks tell it at their ends")
    return said


def _short(function: str) -> str:
    """Without folders."""
    return function.rpartition("/")[2]


def _views(found: PageFindings) -> dict[str, Any]:
    work = make(found)
    assert work is not None
    stacks = {
        (_PYTHON, *map(_short, functions)): charged_ns
        for functions, charged_ns in stacks_ns(found.data).items()
    }
    elsewhere_ns = found.data.host_gaps["counted"]["elsewhere_ns"]
    if elsewhere_ns:
        stacks[(_NO_PYTHON,)] = elsewhere_ns
    return {
        "host_levels": boxes(stacks, separator="\n"),
        "host_classes": {_PYTHON: "python", _NO_PYTHON: "other"},
        "host_functions": [
            {**one, "short": _short(one["function"])} for one in work["functions"][:_ROWS]
        ],
    }


def _is_shown(found: PageFindings) -> bool:
    work = make(found)
    return work is not None and bool(work["stacks"])


PAGE = PagePart("host", "Host time", _views, _is_shown)
