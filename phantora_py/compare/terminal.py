"""A comparison on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from phantora_py.compare.figures import (
    NONE,
    collective_text,
    figure_columns,
    input_text,
    kernel_text,
    least_ns,
    signed_text,
)
from phantora_py.compare.figures_table import figures_tables
from phantora_py.compare.json_types import (
    ChangedClass,
    ChangedCollective,
    ChangedKernel,
    Changes,
    ComparedRun,
    Comparison,
    JudgedComparison,
    SweepComparison,
    Verdict,
)
from phantora_py.text.tables import Column, print_table, table_console

# The rest is in the JSON.
_MOST_ROWS = 8
# What most names of kernels fit into, so that figures stand near (assumed).
_NAME_WIDTH = 72
# Of output that is no terminal: beyond that a table of runs is hard to read (assumed).
_PLAIN_WIDTH = 140


def print_comparison(comparison: JudgedComparison, console: Console | None = None) -> None:
    """Prints the table of runs, what should be known of it, and what changed."""
    console = table_console(console, _PLAIN_WIDTH)
    runs = comparison["runs"]
    print_figures(comparison, console)
    for changes in comparison["changes"]:
        _print_changes(console, runs[0], changes)
    gates = comparison["gates"]
    if gates:
        console.print()
    for verdict in gates:
        console.print(_gate_line(verdict))


def print_figures(comparison: Comparison | SweepComparison, console: Console) -> None:
    """Prints the table of runs and what should be known of it."""
    console = table_console(console, _PLAIN_WIDTH)
    runs = comparison["runs"]
    names = [run["name"] for run in runs]
    for table in figures_tables(names, figure_columns(runs), console.width):
        console.print(table)
        console.print()
    for note in comparison["notes"]:
        console.print(Text(note))


# What changed


def _print_changes(console: Console, first: ComparedRun, changes: Changes) -> None:
    console.print()
    console.print(Text(f"From {first['name']} to {changes['name']}", style="bold"))
    for group in dict.fromkeys(one["group"] for one in changes["inputs"]):
        parts = [input_text(one) for one in changes["inputs"] if one["group"] == group]
        shown = ", ".join(parts[:_MOST_ROWS])
        more = len(parts) - _MOST_ROWS
        console.print(Text(f"  {group}: {shown}" + (f" and {more} more" if more > 0 else "")))
    if not changes["inputs"]:
        console.print("  no input that is recorded differs")
    _print_kernels(console, "kernels by class", changes["kernel_classes"], least_ns(first))
    _print_kernels(console, "kernels", changes["kernels"], least_ns(first))
    _print_collectives(console, changes["collectives"], least_ns(first))


def _print_kernels(
    console: Console, title: str, rows: Sequence[ChangedClass | ChangedKernel], shortest_ns: float
) -> None:
    def change_ns(row: ChangedClass) -> float:
        return float(row["this"]["time_ns"] - row["first"]["time_ns"])

    shown = [row for row in rows if abs(change_ns(row)) > shortest_ns][:_MOST_ROWS]
    if not shown:
        return
    console.print()
    changed = [
        (
            str(row.get("name", row["class"])),
            *(kernel_text(total) for total in (row["first"], row["this"])),
            signed_text(change_ns(row)),
        )
        for row in shown
    ]
    print_table(console, _columns(title), changed)


def _print_collectives(
    console: Console, rows: Sequence[ChangedCollective], shortest_ns: float
) -> None:
    def change_ns(row: ChangedCollective) -> float:
        return float(row["this"]["moving_ns"] - row["first"]["moving_ns"])

    shown = [row for row in rows if change_ns(row) > shortest_ns][:_MOST_ROWS]
    if not shown:
        return
    console.print()
    changed = [
        (
            f"{row['kind']} of {row['participants']} ranks",
            *(collective_text(total) for total in (row["first"], row["this"])),
            signed_text(change_ns(row)),
        )
        for row in shown
    ]
    print_table(console, _columns("collectives that grew"), changed)


def _columns(title: str) -> tuple[Column, ...]:
    return (
        Column(f"{title}, per rank and iteration", is_name=True, most=_NAME_WIDTH),
        Column("first", justify_right=True, left_out=1),
        Column("now", justify_right=True),
        Column("change", justify_right=True),
    )


def _gate_line(verdict: Verdict) -> Text:
    ratio = NONE if verdict["ratio"] is None else f"{verdict['ratio']:.4g}"
    met = ("met", "green") if verdict["met"] else ("not met", "red")
    return Text.assemble(f"gate {verdict['gate']}   {verdict['name']}: {ratio}   ", met)
