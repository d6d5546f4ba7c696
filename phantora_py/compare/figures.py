"""The figures of a comparison in words, for whoever shows it: terminal and page.

Owns titles and texts; where they go is the views' business.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from phantora_py.compare.json_types import (
    ChangedInput,
    CollectiveFigures,
    ComparedRun,
    KernelFigures,
    SweptRun,
)
from phantora_py.text.units import amount_text, duration_text, percent_text, size_text

NONE = "-"
ITERATION, INTERVAL, ENDED, FRONT = "virtual iteration", "interval", "ended", "front"
"""Titles of columns that a view treats otherwise."""
# A change of less than this share of the iteration is not worth a line (assumed).
_LEAST_SHARE = 0.001


@dataclass(frozen=True)
class Column:
    """A column of the table of runs, with the text of each."""

    title: str
    texts: list[str]
    values: list[float | None] | None = None
    """The figures that the texts are of, to sort by; None for words."""


_Value = Callable[[ComparedRun], float | None]


def figure_columns(runs: Sequence[ComparedRun]) -> list[Column]:
    """Those that some run has anything for."""
    columns: list[tuple[str, Callable[[ComparedRun], str], _Value | None]] = [
        ("GPUs", _gpus, lambda run: run["ranks"]),
        (ITERATION, *_figure(_iteration_ns, duration_text)),
        (INTERVAL, _interval, _low_ns),
        (
            "speed-up",
            lambda run: _speed_up(run, run is runs[0]) if len(runs) > 1 else NONE,
            lambda run: 1.0 if run is runs[0] else run["speed_up"] and run["speed_up"]["value"],
        ),
        (
            _throughput_title(runs),
            *_figure(lambda run: run["throughput"] and run["throughput"]["per_s"], amount_text),
        ),
        ("MFU", *_figure(lambda run: run["mfu"], percent_text)),
        ("HFU", *_figure(lambda run: run["hfu"], percent_text)),
        ("exposed", *_figure(lambda run: run["exposed_communication_ns"], duration_text)),
        ("waiting", *_figure(lambda run: run["waiting_for_ranks_ns"], duration_text)),
        ("peak memory", _memory, lambda run: run["peak_memory_bytes"]),
        ("cost", *_figure(lambda run: run["cost"] and run["cost"]["per_iteration"], _cost)),
        (
            _cost_title(runs),
            *_figure(lambda run: run["cost"] and run["cost"]["per_million"], _cost),
        ),
        (ENDED, _end, None),
        ("model", lambda run: "not full" if run["unsimulated"] else NONE, None),
        (FRONT, lambda run: "*" if run.get("pareto") else NONE, None),
    ]
    made = [
        Column(title, [text(run) for run in runs], value and [value(run) for run in runs])
        for title, text, value in columns
    ]
    return [column for column in made if not set(column.texts) <= {NONE}]


def front_text(runs: Sequence[SweptRun]) -> str:
    """What the marks of the Pareto front say; empty if there are none."""
    if not any(one["pareto"] for one in runs):
        return ""
    what = "a unit of work" if runs[0]["throughput"] else "an iteration"
    return f"* no other is better in time of {what}, peak memory and GPUs together"


def least_ns(first: ComparedRun) -> float:
    """What a time must have changed by to be shown."""
    return float(_LEAST_SHARE * first["iteration"]["median_ns"]) if first["iteration"] else 0.0


def input_text(one: ChangedInput) -> str:
    """An input that differs."""
    name, first, this = one["name"], one["first"], one["this"]
    if first is None:
        return f"{name} {shlex.quote(this) if this else ''}".strip() + " added"
    if this is None:
        return f"{name} {first}".strip() + " left out"
    return f"{name} {first} -> {this}".lstrip()


def signed_text(change_ns: float) -> str:
    """A change of time."""
    return f"{'+' if change_ns > 0 else '-'}{duration_text(abs(change_ns))}"


def kernel_text(total: KernelFigures) -> str:
    """Count and time of a kernel, of one rank in one iteration."""
    if not total["count"]:
        return NONE
    return f"{_count(total)} x, {duration_text(total['time_ns'])}"


def collective_text(total: CollectiveFigures) -> str:
    """Likewise of a collective, with its size."""
    if not total["count"]:
        return NONE
    size = size_text(total["size_bytes"])
    return f"{_count(total)} x, {size}, {duration_text(total['moving_ns'])}"


def _count(total: KernelFigures | CollectiveFigures) -> str:
    return f"{total['count']:.4g}" if total["count"] < 1000 else f"{total['count']:.0f}"


def _figure(
    value: _Value, text: Callable[[float], str]
) -> tuple[Callable[[ComparedRun], str], _Value]:
    """The text of a figure that may not be known, and the figure."""

    def shown(run: ComparedRun) -> str:
        known = value(run)
        return NONE if known is None else text(known)

    return shown, value


def _gpus(run: ComparedRun) -> str:
    return " + ".join(f"{ranks} {gpu}" for gpu, ranks in run["gpus"].items())


def _iteration_ns(run: ComparedRun) -> float | None:
    return run["iteration"] and run["iteration"]["median_ns"]


def _interval(run: ComparedRun) -> str:
    """As the run's own report says it."""
    known = run["iteration"] and run["iteration"]["model_interval_ns"]
    return f"{duration_text(known[0])} to {duration_text(known[1])}" if known else NONE


def _low_ns(run: ComparedRun) -> float | None:
    known = run["iteration"] and run["iteration"]["model_interval_ns"]
    return known[0] if known else None


def _speed_up(run: ComparedRun, is_first: bool) -> str:
    ratio = run["speed_up"]
    if is_first:
        return "1 (the first)"
    if ratio is None:
        return NONE
    if ratio["distinguishable"] is None:
        return f"{ratio['value']:#.3g} (range not known)"
    if not ratio["distinguishable"]:
        return f"{ratio['value']:#.3g}, not distinguishable"
    low, high = f"{ratio['low']:#.3g}", f"{ratio['high']:#.3g}"
    return f"{ratio['value']:#.3g}" + (f" ({low} to {high})" if low != high else "")


def _throughput_title(runs: Sequence[ComparedRun]) -> str:
    return next((f"{run['throughput']['unit']}/s" for run in runs if run["throughput"]), "")


def _memory(run: ComparedRun) -> str:
    if run["peak_memory_bytes"] is None:
        return NONE
    share = percent_text(run["peak_memory_bytes"] / run["capacity_bytes"])
    fits = ", did not fit" if run["fits"] is False and run["exit_code"] == 0 else ""
    return f"{size_text(run['peak_memory_bytes'])} ({share}{fits})"


def _cost(cost: float) -> str:
    return f"{cost:.3g}"


def _cost_title(runs: Sequence[ComparedRun]) -> str:
    unit = next((run["throughput"]["unit"] for run in runs if run["throughput"]), "")
    return f"cost per million {unit}"


def _end(run: ComparedRun) -> str:
    if run["broke_off"]:
        return "broke off"
    if run["fits"] is False and run["exit_code"]:
        return "out of memory"
    return f"exit code {run['exit_code']}" if run["exit_code"] else NONE
