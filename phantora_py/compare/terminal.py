"""A comparison on a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from phantora_py.report.units import amount_text, duration_text, percent_text, size_text

# The rest is in the JSON.
_MOST_ROWS = 8
# A change of less than this share of the iteration is not worth a line (assumed).
_LEAST_SHARE = 0.001
# Of output that is no terminal (assumed: as wide as most windows).
_PLAIN_WIDTH = 140
_NONE = "-"

Run = Mapping[str, Any]


def print_comparison(comparison: Mapping[str, Any], console: Console | None = None) -> None:
    """Prints the table of runs, what should be known of it, and what changed."""
    console = _wide(console or Console(highlight=False))
    runs = comparison["runs"]
    print_figures(comparison, console)
    for changes in comparison["changes"]:
        _print_changes(console, runs[0], changes)
    gates = comparison.get("gates", [])
    if gates:
        console.print()
    for verdict in gates:
        console.print(_gate_line(verdict))


def print_figures(comparison: Mapping[str, Any], console: Console) -> None:
    """Prints the table of runs and what should be known of it."""
    console = _wide(console)
    console.print(run_table(comparison["runs"]))
    console.print()
    for note in comparison["notes"]:
        console.print(Text(note))


def _wide(console: Console) -> Console:
    width = console.width if console.is_terminal else _PLAIN_WIDTH
    return Console(file=console.file, width=width, highlight=False)


def run_table(runs: Sequence[Run]) -> Table:
    """One row per run; columns that no run has anything for are left out."""
    columns: list[tuple[str, Callable[[Run], str]]] = [
        ("GPUs", lambda run: f"{run['ranks']} {run['gpu']}"),
        ("virtual iteration", _iteration),
        ("speed-up", lambda run: _speed_up(run, run is runs[0])),
        (_throughput_title(runs), _throughput),
        ("exposed", lambda run: _optional(duration_text, run["exposed_communication_ns"])),
        ("peak memory", _memory),
        ("cost", lambda run: _cost(run, "per_iteration")),
        (_cost_title(runs), lambda run: _cost(run, "per_million")),
        ("ended", _end),
        ("front", lambda run: "*" if run.get("pareto") else _NONE),
    ]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("", overflow="fold")
    rows = [[Text(run["name"], style="bold")] for run in runs]
    for title, text in columns:
        texts = [text(run) for run in runs]
        if set(texts) <= {_NONE}:
            continue
        table.add_column(title, overflow="fold")
        for row, one in zip(rows, texts, strict=True):
            row.append(Text(one))
    for row in rows:
        table.add_row(*row)
    return table


def _optional(text: Callable[[float], str], value: float | None) -> str:
    return _NONE if value is None else text(value)


def _iteration(run: Run) -> str:
    return duration_text(run["iteration"]["median_ns"]) if run["iteration"] else _NONE


def _speed_up(run: Run, is_first: bool) -> str:
    ratio = run["speed_up"]
    if is_first:
        return "1 (the first)"
    if ratio is None:
        return _NONE
    if ratio["distinguishable"] is None:
        return f"{ratio['value']:#.3g} (of one iteration)"
    if not ratio["distinguishable"]:
        return f"{ratio['value']:#.3g}, not distinguishable"
    low, high = f"{ratio['low']:#.3g}", f"{ratio['high']:#.3g}"
    return f"{ratio['value']:#.3g}" + (f" ({low} to {high})" if low != high else "")


def _throughput(run: Run) -> str:
    return amount_text(run["throughput"]["per_s"]) if run["throughput"] else _NONE


def _throughput_title(runs: Sequence[Run]) -> str:
    return next((f"{run['throughput']['unit']}/s" for run in runs if run["throughput"]), "")


def _memory(run: Run) -> str:
    if run["peak_memory_bytes"] is None:
        return _NONE
    share = percent_text(run["peak_memory_bytes"] / run["capacity_bytes"])
    fits = ", did not fit" if run["fits"] is False and run["exit_code"] == 0 else ""
    return f"{size_text(run['peak_memory_bytes'])} ({share}{fits})"


def _cost(run: Run, per: str) -> str:
    return f"{run['cost'][per]:.3g}" if run["cost"] and run["cost"][per] is not None else _NONE


def _cost_title(runs: Sequence[Run]) -> str:
    unit = next((run["throughput"]["unit"] for run in runs if run["throughput"]), "")
    return f"cost per million {unit}"


def _end(run: Run) -> str:
    if run["broke_off"]:
        return "broke off"
    if run["fits"] is False and run["exit_code"]:
        return "out of memory"
    return f"exit code {run['exit_code']}" if run["exit_code"] else _NONE


# What changed


def _print_changes(console: Console, first: Run, changes: Mapping[str, Any]) -> None:
    console.print()
    console.print(Text(f"From {first['name']} to {changes['name']}", style="bold"))
    for group in dict.fromkeys(one["group"] for one in changes["inputs"]):
        parts = [_input_text(one) for one in changes["inputs"] if one["group"] == group]
        shown = ", ".join(parts[:_MOST_ROWS])
        more = len(parts) - _MOST_ROWS
        console.print(Text(f"  {group}: {shown}" + (f" and {more} more" if more > 0 else "")))
    if not changes["inputs"]:
        console.print("  no input that is recorded differs")
    least_ns = _LEAST_SHARE * first["iteration"]["median_ns"] if first["iteration"] else 0.0
    _print_kernels(console, "kernels by class", changes["kernel_classes"], least_ns)
    _print_kernels(console, "kernels", changes["kernels"], least_ns)
    _print_collectives(console, changes["collectives"], least_ns)


def _input_text(one: Mapping[str, Any]) -> str:
    name = one["name"] or "command"
    first, this = one["first"], one["this"]
    if first is None:
        return f"{name} {shlex.quote(this) if this else ''}".rstrip() + " added"
    if this is None:
        return f"{name} {first}".rstrip() + " left out"
    return f"{name} {first} -> {this}"


def _print_kernels(
    console: Console, title: str, rows: Sequence[Mapping[str, Any]], least_ns: float
) -> None:
    def change_ns(row: Mapping[str, Any]) -> float:
        return float(row["this"]["time_ns"] - row["first"]["time_ns"])

    shown = [row for row in rows if abs(change_ns(row)) > least_ns][:_MOST_ROWS]
    if not shown:
        return
    console.print()
    table = _table(title, "first", "now", "change")
    for row in shown:
        table.add_row(
            Text(row.get("name") or row["class"], overflow="ellipsis", no_wrap=True),
            *(_kernel_text(row[which]) for which in ("first", "this")),
            _signed(change_ns(row)),
        )
    console.print(table)


def _print_collectives(
    console: Console, rows: Sequence[Mapping[str, Any]], least_ns: float
) -> None:
    def change_ns(row: Mapping[str, Any]) -> float:
        return float(row["this"]["moving_ns"] - row["first"]["moving_ns"])

    shown = [row for row in rows if change_ns(row) > least_ns][:_MOST_ROWS]
    if not shown:
        return
    console.print()
    table = _table("collectives that grew", "first", "now", "change")
    for row in shown:
        table.add_row(
            f"{row['kind']} of {row['participants']} ranks",
            *(_collective_text(row[which]) for which in ("first", "this")),
            _signed(change_ns(row)),
        )
    console.print(table)


def _table(title: str, *columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column(f"{title}, per rank and iteration", no_wrap=True, max_width=72)
    for column in columns:
        table.add_column(column, no_wrap=True, justify="right")
    return table


def _kernel_text(total: Mapping[str, float]) -> str:
    if not total["count"]:
        return _NONE
    return f"{_count(total)} x, {duration_text(total['time_ns'])}"


def _collective_text(total: Mapping[str, float]) -> str:
    if not total["count"]:
        return _NONE
    size = size_text(total["size_bytes"])
    return f"{_count(total)} x, {size}, {duration_text(total['moving_ns'])}"


def _count(total: Mapping[str, float]) -> str:
    return f"{total['count']:.4g}" if total["count"] < 1000 else f"{total['count']:.0f}"


def _signed(change_ns: float) -> str:
    return f"{'+' if change_ns > 0 else '-'}{duration_text(abs(change_ns))}"


def _gate_line(verdict: Mapping[str, Any]) -> Text:
    ratio = _NONE if verdict["ratio"] is None else f"{verdict['ratio']:.4g}"
    met = ("met", "green") if verdict["met"] else ("not met", "red")
    return Text.assemble(f"gate {verdict['gate']}   {verdict['name']}: {ratio}   ", met)
