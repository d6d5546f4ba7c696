"""A comparison on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
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

# The rest is in the JSON.
_MOST_ROWS = 8
# Of output that is no terminal (assumed: as wide as most windows).
_PLAIN_WIDTH = 140


def print_comparison(comparison: JudgedComparison, console: Console | None = None) -> None:
    """Prints the table of runs, what should be known of it, and what changed."""
    console = _wide(console or Console(highlight=False))
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
    console = _wide(console)
    runs = comparison["runs"]
    names = [run["name"] for run in runs]
    for table in figures_tables(names, figure_columns(runs), console.width):
        console.print(table)
        console.print()
    for note in comparison["notes"]:
        console.print(Text(note))


def _wide(console: Console) -> Console:
    width = console.width if console.is_terminal else _PLAIN_WIDTH
    return Console(file=console.file, width=width, highlight=False)


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
    table = _table(title, "first", "now", "change")
    for row in shown:
        table.add_row(
            Text(str(row.get("name", row["class"])), overflow="ellipsis", no_wrap=True),
            *(kernel_text(total) for total in (row["first"], row["this"])),
            signed_text(change_ns(row)),
        )
    console.print(table)


def _print_collectives(
    console: Console, rows: Sequence[ChangedCollective], shortest_ns: float
) -> None:
    def change_ns(row: ChangedCollective) -> float:
        return float(row["this"]["moving_ns"] - row["first"]["moving_ns"])

    shown = [row for row in rows if change_ns(row) > shortest_ns][:_MOST_ROWS]
    if not shown:
        return
    console.print()
    table = _table("collectives that grew", "first", "now", "change")
    for row in shown:
        table.add_row(
            Text(f"{row['kind']} of {row['participants']} ranks"),
            *(collective_text(total) for total in (row["first"], row["this"])),
            signed_text(change_ns(row)),
        )
    console.print(table)


def _table(title: str, *columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    # The one column that gives way on a narrow terminal.
    table.add_column(f"{title}, per rank and iteration", max_width=72)
    for column in columns:
        table.add_column(column, no_wrap=True, justify="right")
    return table


def _gate_line(verdict: Verdict) -> Text:
    ratio = NONE if verdict["ratio"] is None else f"{verdict['ratio']:.4g}"
    met = ("met", "green") if verdict["met"] else ("not met", "red")
    return Text.assemble(f"gate {verdict['gate']}   {verdict['name']}: {ratio}   ", met)
