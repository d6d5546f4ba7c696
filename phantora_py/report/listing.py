"""`phantora report FILE --kernels`: what devices compute, the largest that nobody knows first."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from phantora_py.data import RunData
from phantora_py.report.iterations import find_iterations
from phantora_py.report.kernels import KernelRow, kernel_rows
from phantora_py.report.window import Window, steady_window
from phantora_py.text.units import duration_text, percent_text
from sim_server.kernels import Tier

# Kernels without a rule; the first that a model would help.
_UNKNOWN = "other"
_DOUBT = {tier.value: place for place, tier in enumerate(reversed(Tier))}
# Of output that is no terminal (assumed: names of kernels are long).
_PLAIN_WIDTH = 160


def print_kernels(data: RunData, console: Console | None = None) -> None:
    """Prints a row per class, then one per kernel."""
    console = console or Console(highlight=False)
    if not console.is_terminal:
        console = Console(file=console.file, width=_PLAIN_WIDTH, highlight=False)
    window = steady_window(data, find_iterations(data))
    rows = ordered(kernel_rows(data, window))
    if not rows:
        console.print("No kernel ran.")
        return
    count = data.ranks * max(window.iterations, 1)
    whole_ns = sum(row.total_ns for row in rows)
    console.print(_title(window))
    for table in _tables(rows, count, whole_ns):
        console.print()
        console.print(table)


def ordered(rows: list[KernelRow]) -> list[KernelRow]:
    """Unknown ones, assumed ones, and so on to measured ones; the longest first in each."""
    return sorted(
        rows,
        key=lambda row: (row.kernel_class != _UNKNOWN, _DOUBT[row.tier], -row.total_ns, row.name),
    )


def _title(window: Window) -> str:
    if not window.iterations:
        return "Of the whole run, means over ranks."
    return "Of the iterations after the first, means over ranks and iterations."


def _tables(rows: list[KernelRow], count: int, whole_ns: int) -> Iterator[Table]:
    classes: dict[tuple[str, str], list[KernelRow]] = {}
    for row in rows:
        classes.setdefault((row.kernel_class, row.tier), []).append(row)
    table = _table("class", "tier", "kernels", "launches", "time", "share")
    for (kernel_class, tier), members in classes.items():
        total_ns = sum(row.total_ns for row in members)
        launches = sum(row.launches for row in members)
        figures = _figures(launches, total_ns, count, whole_ns)
        table.add_row(kernel_class, tier, str(len(members)), *figures)
    yield table
    table = _table("kernel", "class", "tier", "launches", "time", "share")
    for row in rows:
        figures = _figures(row.launches, row.total_ns, count, whole_ns)
        table.add_row(Text(row.name), row.kernel_class, row.tier, *figures)
    yield table


def _figures(launches: int, total_ns: int, count: int, whole_ns: int) -> tuple[str, str, str]:
    share = total_ns / whole_ns if whole_ns else 0.0
    return f"{launches / count:.4g}", duration_text(total_ns / count), percent_text(share)


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column(first, overflow="fold", max_width=84)
    for name in others:
        figure = name in ("kernels", "launches", "time", "share")
        table.add_column(name, no_wrap=True, justify="right" if figure else "left")
    return table
