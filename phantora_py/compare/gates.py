"""Gates: figures that may be at most so many times those of the first run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from phantora_py.compare.json_types import ComparedRun, Comparison, JudgedComparison, Verdict
from phantora_py.compare.quantities import Gate
from sim_server.errors import GateFailed

_FIGURES: Mapping[str, Callable[[ComparedRun], float | None]] = {
    "iteration_time": lambda run: run["iteration"]["median_ns"] if run["iteration"] else None,
    "exposed_communication": lambda run: run["exposed_communication_ns"],
    "waiting_for_ranks": lambda run: run["waiting_for_ranks_ns"],
    "peak_memory": lambda run: run["peak_memory_bytes"],
}


def judge(comparison: Comparison, gates: Sequence[Gate]) -> list[Verdict]:
    """The `gates` of the comparison: each gate for each run but the first. `ratio` is null where a
    figure is not known; such a gate is not met, nor is one of a run that did not finish.
    """
    first, *others = comparison["runs"]
    return [_verdict(gate, first, run) for run in others for gate in gates]


def _verdict(gate: Gate, first: ComparedRun, run: ComparedRun) -> Verdict:
    base, value = (_FIGURES[gate.metric](one) for one in (first, run))
    finished = first["exit_code"] == 0 and run["exit_code"] == 0
    ratio = None
    if base is not None and value is not None:
        # 0 of 0 is no change; more than 0 of 0 is above every limit.
        ratio = value / base if base else 1.0 if not value else float("inf")
    return {
        "gate": gate.text,
        "name": run["name"],
        "metric": gate.metric,
        "limit": gate.limit,
        "ratio": None if ratio == float("inf") else ratio,
        "met": finished and ratio is not None and ratio <= gate.limit,
    }


def require(comparison: JudgedComparison) -> None:
    """Raises: GateFailed if a gate is not met."""
    failed = list(_complaints(comparison))
    if failed:
        raise GateFailed(" ".join(failed))


def _complaints(comparison: JudgedComparison) -> Iterator[str]:
    runs = {run["name"]: run for run in comparison["runs"]}
    first = comparison["runs"][0]
    for verdict in comparison["gates"]:
        if verdict["met"]:
            continue
        name, metric, ratio = verdict["name"], verdict["metric"], verdict["ratio"]
        unfinished = [run for run in (first, runs[name]) if run["exit_code"] != 0]
        if unfinished:
            yield f"{name}: {metric} is not judged, because {unfinished[0]['name']} did not finish."
        elif ratio is not None:
            yield (
                f"{name}: {metric} is {ratio:.4g} times that of {first['name']}, and the limit "
                + (f"is {verdict['limit']:g}.")
            )
        elif _FIGURES[metric](first) == 0:
            yield f"{name}: {metric} is above 0, which it is in {first['name']}."
        else:
            yield f"{name}: {metric} cannot be judged, because it is not known of both runs."
