"""How many calls were modelled."""

from __future__ import annotations

from typing import TypedDict

from phantora_py.report.findings import Findings
from phantora_py.report.sections import unsupported
from phantora_py.report.sections.headline import Run


class CallCounts(TypedDict):
    """Of the ranks that told: those that were stopped did not."""

    modelled: int
    ignored: int
    passthrough: int
    unsupported: int
    """Those that the program went on after, and the one that ended the run."""
    ranks: int
    """How many told."""
    started: int
    """How many there were: with --gpus some GPUs may have had none."""


def make(found: Findings) -> CallCounts:
    """The entry of the summary."""
    data = found.data
    totals = {"modelled": 0, "ignored": 0, "passthrough": 0}
    for library in data.calls.values():
        for support in totals:
            totals[support] += sum(library[support].values())
    answered = unsupported.make(found)
    stops = int(data.run.get("exit_code") == 3)
    return {
        "modelled": totals["modelled"],
        "ignored": totals["ignored"],
        "passthrough": totals["passthrough"],
        "unsupported": answered["skipped"] + answered["refused"] + stops,
        "ranks": len(data.calls_of),
        "started": len(found.started),
    }


def lines(calls: CallCounts, run: Run) -> list[str]:
    """On a terminal."""
    if run["broke_off"]:
        return []
    ranks = calls["started"]
    ended = f"{calls['unsupported']:,} unsupported"
    if not ranks:
        return [f"  calls      none: the program used no GPU; {ended}"]
    if not calls["ranks"]:
        untold = (
            "no rank told: each was stopped, left by _exit or quick_exit, or is an execution trace"
        )
        return [f"  calls      not known: {untold}; {ended}"]
    some = f" (of {calls['ranks']} of {ranks} ranks: those that were stopped have not told)"
    return [
        f"  calls      {calls['modelled']:,} modelled   {calls['ignored']:,} ignored   "
        f"{calls['passthrough']:,} passed through   {ended}"
        f"{some if calls['ranks'] < ranks else ''}"
    ]
