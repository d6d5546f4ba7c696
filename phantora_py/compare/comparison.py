"""Several runs against the first of them: the object that `--json` prints and the tables show.

The shape is public (docs/json.md): keys may be added; the schema's number changes with a meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from phantora_py.compare.inputs import Inputs, differences, inputs_of, program_of
from phantora_py.compare.interval import Doubts, SpeedUp, Spread, speed_up, spread
from phantora_py.compare.json_types import (
    Changes,
    CollectiveFigures,
    ComparedIteration,
    ComparedRun,
    Comparison,
    Cost,
    KernelFigures,
    PeakShares,
    SpeedUpJson,
    Throughput,
)
from phantora_py.compare.module_changes import changed_modules
from phantora_py.compare.quantities import Prices, Work, hourly_cost
from phantora_py.compare.work import (
    CollectiveTotal,
    KernelTotal,
    add_up,
    class_changes,
    collective_changes,
    kernel_changes,
)
from phantora_py.compare.work import Work as DoneWork
from phantora_py.data import RunData
from phantora_py.report.certainty import HIDDEN_HOST
from phantora_py.report.iterations import find_iterations
from phantora_py.report.sections import by_machine, unsimulated, unsupported
from phantora_py.report.sections.unknown_reads import difference_text
from phantora_py.report.summary import Summary, summarise

SCHEMA = 2
_HOUR_NS = 3600 * 10**9


@dataclass(frozen=True)
class Configuration:
    """One run, as far as it is compared."""

    name: str
    summary: Summary
    gpus: dict[str, int]
    """How many ranks have which."""
    iterations: Spread | None
    """None if there was none after the first."""
    inputs: Inputs
    done: DoneWork
    work: Work | None = None
    """What an iteration gets through, if the user said so."""

    @property
    def gpu(self) -> str:
        """Their names, in the order of ranks."""
        return " + ".join(self.gpus)

    @property
    def doubts(self) -> Doubts:
        """How far the models may be off, by class; empty if that is not known. Without host time
        that work hides: if it came out, the runs would differ by their hosts alone.
        """
        interval = self.summary["trust"]["interval"]
        classes = interval["classes"] if interval else ()
        return {
            one["class"]: (one["shorter"], one["longer"])
            for one in classes
            if one["class"] != HIDDEN_HOST
        }


def read_configuration(
    path: Path, name: str, work: Work | None = None, iteration: str | None = None
) -> Configuration:
    """`iteration`: see `RunData`. Raises: UsageError if `path` cannot be read."""
    data = RunData(path, iteration)
    iterations = find_iterations(data)
    durations_ns = iterations.compared_ns.tolist()
    return Configuration(
        name=name,
        summary=summarise(data),
        gpus=gpus_of_run(data.run),
        iterations=spread(durations_ns) if durations_ns else None,
        inputs=inputs_of(data),
        done=add_up(data, iterations),
        work=work,
    )


def gpus_of_run(run: Mapping[str, Any]) -> dict[str, int]:
    """How many ranks of a run (its run.json) are on GPUs of each kind."""
    cluster = run["cluster"]
    alike = {"gpu": cluster.get("gpu", run["cluster_name"]), "nodes": run["nodes"]}
    groups = cluster.get("node_groups") or [alike]
    by_node = [group["gpu"] for group in groups for _ in range(group["nodes"])]
    return Counter(by_node[rank // run["gpus_per_node"]] for rank in range(run["ranks"]))


def names_of(paths: Sequence[Path]) -> list[str]:
    """What the runs are called: their files without directory and suffix, where that tells them
    apart.
    """
    for names in ([path.stem for path in paths], [path.name for path in paths]):
        if len(set(names)) == len(names):
            return names
    return list(map(str, paths))


def compare(runs: Sequence[Configuration], prices: Prices) -> Comparison:
    """The comparison of at least one run. Units: as the keys say; times are virtual."""
    first = runs[0]
    amounts = _amounts(runs)
    return {
        "schema": SCHEMA,
        "runs": [
            _figures(run, first, prices, amount) for run, amount in zip(runs, amounts, strict=True)
        ],
        "changes": [_changes(first, run) for run in runs[1:]],
        "notes": [note for tell in _NOTES for note in tell(runs)],
    }


@dataclass(frozen=True)
class _Amount:
    """What an iteration gets through."""

    per_iteration: float
    unit: str


def _amounts(runs: Sequence[Configuration]) -> list[_Amount | None]:
    """As the user says; else as the reports find it, in a unit that all runs with iterations have,
    tokens before samples.
    """
    if any(run.work for run in runs):
        return [_Amount(run.work.amount, run.work.unit) if run.work else None for run in runs]
    for unit in ("tokens", "samples"):
        found = [_found(run, unit) for run in runs]
        if all(
            amount or not _takes_time(run.iterations)
            for amount, run in zip(found, runs, strict=True)
        ):
            return found
    return [None] * len(runs)


def _found(run: Configuration, unit: str) -> _Amount | None:
    through = run.summary["throughput"]
    amount = through and through[unit]  # type: ignore[literal-required]
    if not amount or not amount["is_whole"]:
        return None
    return _Amount(amount["per_iteration"], unit)


def _figures(
    run: Configuration, first: Configuration, prices: Prices, amount: _Amount | None
) -> ComparedRun:
    summary, iterations = run.summary, run.iterations
    ratio = None
    if run is not first and _takes_time(iterations) and _takes_time(first.iterations):
        ratio = speed_up(
            *(first.iterations, iterations, _relative_work(run, first)),
            doubts=(first.doubts, run.doubts),
            common=_same_models(run, first),
        )
    memory = summary["memory"]
    return {
        "name": run.name,
        "command": summary["command"],
        "ranks": summary["ranks"],
        "cluster": summary["cluster"],
        "gpu": run.gpu,
        "gpus": run.gpus,
        "host_time": summary["host_time"],
        "exit_code": summary["exit_code"],
        "broke_off": summary["broke_off"],
        "digest": summary["digest"],
        "iteration": _iteration(summary, iterations) if iterations else None,
        "speed_up": _ratio(ratio) if ratio else None,
        "throughput": _throughput(run, amount),
        **_utilization(summary),
        "breakdown_ns": summary["breakdown_ns"],
        "unknown_reads": summary["trust"]["unknown_reads"],
        "unsimulated": summary["trust"]["unsimulated"],
        "exposed_communication_ns": summary["breakdown_ns"]["exposed_communication"],
        "waiting_for_ranks_ns": summary["breakdown_ns"]["waiting_for_ranks"],
        "peak_memory_bytes": max(memory["peak_device_bytes"], default=None),
        "capacity_bytes": memory["capacity_bytes"],
        "fits": memory["fits"],
        "cost": _cost(run, prices, amount),
    }


def _iteration(summary: Summary, iterations: Spread) -> ComparedIteration:
    interval, model = iterations.interval, summary["trust"]["interval"]
    return {
        "count": summary["iterations"]["count"],
        "median_ns": iterations.median_ns,
        "interval_ns": [interval.low_ns, interval.high_ns] if interval else None,
        "confidence": interval.confidence if interval else None,
        "per_iteration_ns": summary["iterations"]["per_iteration_ns"],
        "model_interval_ns": [model["low_ns"], model["high_ns"]] if model else None,
    }


def _ratio(ratio: SpeedUp) -> SpeedUpJson:
    return {
        "value": ratio.value,
        "low": ratio.low,
        "high": ratio.high,
        "distinguishable": ratio.distinguishable,
    }


def _takes_time(iterations: Spread | None) -> TypeGuard[Spread]:
    return iterations is not None and iterations.median_ns > 0


def _same_models(run: Configuration, first: Configuration) -> bool:
    """Errors are the same in both, and cancel as far as the runs do the same."""
    versions = [one.summary["versions"].get("phantora") for one in (run, first)]
    return run.gpu == first.gpu and versions[0] == versions[1]


def _relative_work(run: Configuration, first: Configuration) -> float:
    return run.work.amount / first.work.amount if run.work and first.work else 1.0


def _throughput(run: Configuration, amount: _Amount | None) -> Throughput | None:
    if amount is None or run.iterations is None or not run.iterations.median_ns:
        return None
    per_s = amount.per_iteration / run.iterations.median_ns * 1e9
    return {"unit": amount.unit, "per_iteration": amount.per_iteration, "per_s": per_s}


def _utilization(summary: Summary) -> PeakShares:
    found = summary["throughput"] and summary["throughput"]["utilization"]
    return {"mfu": found["mfu"], "hfu": found["hfu"]} if found else {"mfu": None, "hfu": None}


def _cost(run: Configuration, prices: Prices, amount: _Amount | None) -> Cost | None:
    per_hour = hourly_cost(prices, run.gpus)
    if run.iterations is None or per_hour is None:
        return None
    cost = per_hour * run.iterations.median_ns / _HOUR_NS
    per_million = cost / amount.per_iteration * 1e6 if amount else None
    mean = per_hour / run.summary["ranks"]
    return {"per_gpu_hour": mean, "per_iteration": cost, "per_million": per_million}


def _changes(first: Configuration, run: Configuration) -> Changes:
    return {
        "name": run.name,
        "inputs": [
            {"group": one.group, "name": one.name, "first": one.first, "this": one.this}
            for one in differences(first.inputs, run.inputs)
        ],
        "kernel_classes": [
            {"class": one.key[0], "first": _kernel(one.first), "this": _kernel(one.this)}
            for one in class_changes(first.done, run.done)
        ],
        "kernels": [
            {
                "class": one.key[0],
                "name": one.key[1],
                "first": _kernel(one.first),
                "this": _kernel(one.this),
            }
            for one in kernel_changes(first.done, run.done)
        ],
        "collectives": [
            {
                "kind": one.key[0],
                "participants": one.key[1],
                "first": _collective(one.first),
                "this": _collective(one.this),
            }
            for one in collective_changes(first.done, run.done)
        ],
        "modules": changed_modules(first.summary["modules"], run.summary["modules"]),
    }


def _kernel(total: KernelTotal) -> KernelFigures:
    return {"count": total.count, "time_ns": total.time_ns}


def _collective(total: CollectiveTotal) -> CollectiveFigures:
    return {
        "count": total.count,
        "size_bytes": total.size_bytes,
        "moving_ns": total.moving_ns,
        "waiting_ns": total.waiting_ns,
    }


def not_finished_text(name: str, exit_code: int, message: str) -> str:
    """How a run ended that failed, as a sentence."""
    return f"{name} did not finish: exit code {exit_code}: {shortened(message)}"


def shortened(message: str) -> str:
    """The message of a run's end, without the last lines of the rank."""
    return message.partition("\n")[0].removesuffix(" Its last lines:")


# What the reader has to know


def _ends(runs: Sequence[Configuration]) -> list[str]:
    notes = []
    for run in runs:
        if run.summary["broke_off"]:
            notes.append(f"{run.name} broke off: phantora was killed, and memory is not known.")
        elif code := run.summary["exit_code"]:
            notes.append(not_finished_text(run.name, code, run.summary["message"]))
        elif run.iterations is None:
            notes.append(
                f"{run.name} has no iteration after its first; its kernels and collectives are "
                "those of the whole run."
            )
        elif not run.iterations.median_ns:
            notes.append(
                f"Iterations of {run.name} take no virtual time: nothing was done on a GPU between "
                "two of them."
            )
    return notes


def _parts(runs: Sequence[Configuration]) -> list[str]:
    """What is missing in the times of a run, or not decided by its program."""
    notes = []
    for run in runs:
        trust = run.summary["trust"]
        marks = unsimulated.mark(trust["unsimulated"]), unsupported.mark(trust["unsupported"])
        notes += [f"{run.name} is not a full model: {marked}." for marked in marks if marked]
        notes += [
            f"{run.name} depends on the machine it ran on: {said}."
            for said in by_machine.marks(trust["by_machine"])
        ]
    return notes


def _reads(runs: Sequence[Configuration]) -> list[str]:
    """Lines that read unknown values, by which the runs may have decided what they do."""
    notes = []
    for run in runs:
        rows = run.summary["trust"]["unknown_reads"]
        if rows:
            total = sum(row["count"] for row in rows)
            differs = next(filter(None, map(difference_text, rows)), "")
            notes.append(
                f"{run.name} read {total:,} values that no rule produced, most at "
                f"{rows[0]['site']}{f'; {differs}' if differs else ''}."
            )
    return notes


def _work(runs: Sequence[Configuration]) -> list[str]:
    programs = list(dict.fromkeys(program_of(run.summary["command"]) for run in runs))
    if len(programs) > 1:
        return [f"The runs are of different programs: {', '.join(programs)}."]
    if any(run.inputs["command"] != runs[0].inputs["command"] for run in runs) and not runs[0].work:
        return [
            "The commands differ. Iterations are compared as they are, whether or not they do the "
            "same work; --per-iteration tells how much they do."
        ]
    ways = [run.summary["iterations"]["detected_by"] for run in runs if run.iterations]
    found = list(dict.fromkeys(ways))
    if len(found) > 1:
        return [f"Iterations were found in different ways: by {', by '.join(found)}."]
    return []


def _equal(runs: Sequence[Configuration]) -> list[str]:
    digest = runs[0].summary["digest"]
    same = [run.name for run in runs[1:] if digest and run.summary["digest"] == digest]
    return [f"The same history as {runs[0].name}, to the nanosecond: {', '.join(same)}."] * bool(
        same
    )


def _uncertainty(runs: Sequence[Configuration]) -> list[str]:
    """What the ranges say, and what they leave out."""
    intervals = [run.iterations.interval for run in runs if run.iterations]
    known = [interval.confidence for interval in intervals if interval]
    if len(runs) < 2 or not known:
        return []
    spread_text = (
        "The range of a speed-up has the spread of the iterations within each run, which gives "
        f"each median with {100 * min(known):.0f} % confidence or more"
    )
    if not all(run.doubts for run in runs if run.iterations):
        return [f"{spread_text}; it leaves out how accurate the models are, which is not known."]
    gpus = list(dict.fromkeys(run.gpu for run in runs))
    if all(_same_models(run, runs[0]) for run in runs):
        rest = "are on the same models, so that what they have in common cancels."
    elif len(gpus) > 1:
        rest = f"of different GPUs ({', '.join(gpus)}) err each in their own way."
    else:
        rest = "that different versions simulated err each in their own way."
    return [f"{spread_text}, and the models' own 90 % intervals: runs {rest}"]


_NOTES: list[Callable[[Sequence[Configuration]], list[str]]] = [
    *(_ends, _parts, _reads, _work, _equal, _uncertainty)
]
