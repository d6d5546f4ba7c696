"""Iterations as bars of a page: their parts, the run's interval, a mark for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phantora_py.compare.json_types import ComparedIteration, ComparedRun
from phantora_py.report.sections.breakdown import exclusive_ns


def iteration_bars(runs: Sequence[ComparedRun]) -> list[dict[str, Any]]:
    """One of each run, for the template `bar.html`; all to the same scale."""
    longest_ns = _longest_ns(runs)
    return [_bar(run, longest_ns) for run in runs]


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
