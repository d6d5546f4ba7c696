"""`phantora report FILE --kernels`: kernels by time, the least certain first."""

from __future__ import annotations

from rich.console import Console

from phantora_py.data import RunData
from phantora_py.report.gpus import run_gpus
from phantora_py.report.iterations import find_iterations
from phantora_py.report.kernels import KernelRow, kernel_rows
from phantora_py.report.window import Window, steady_window
from phantora_py.text.tables import Column, print_table, table_console
from phantora_py.text.units import duration_text, percent_text
from sim_server.kernels import Tier

# Kernels without a rule; the first that a model would help.
_UNKNOWN = "other"
_DOUBT = {tier.value: place for place, tier in enumerate(reversed(Tier))}
# What most names of kernels fit into, so that figures stand near (assumed).
_NAME_WIDTH = 84
_FIGURES = (
    Column("launches", justify_right=True, left_out=1),
    Column("time", justify_right=True),
    Column("share", justify_right=True),
)


def print_kernels(data: RunData, console: Console | None = None) -> None:
    """Prints a row per class, then one per kernel."""
    console = table_console(console)
    window = steady_window(data, find_iterations(data))
    rows = ordered(kernel_rows(data, window))
    if not rows:
        console.print("No kernel ran.")
        return
    count = len(run_gpus(data)) * max(window.iterations, 1)
    whole_ns = sum(row.total_ns for row in rows)
    console.print(_title(window))
    console.print()
    _print_classes(console, rows, count, whole_ns)
    console.print()
    _print_rows(console, rows, count, whole_ns)


def ordered(rows: list[KernelRow]) -> list[KernelRow]:
    """Unknown ones, assumed ones, and so on to measured ones; the longest first in each."""
    return sorted(
        rows,
        key=lambda row: (row.kernel_class != _UNKNOWN, _DOUBT[row.tier], -row.total_ns, row.name),
    )


def _title(window: Window) -> str:
    if not window.iterations:
        return "Of the whole run, means over GPUs."
    return "Of the iterations after the first, means over GPUs and iterations."


def _print_classes(console: Console, rows: list[KernelRow], count: int, whole_ns: int) -> None:
    classes: dict[tuple[str, str], list[KernelRow]] = {}
    for row in rows:
        classes.setdefault((row.kernel_class, row.tier), []).append(row)
    shown = []
    for (kernel_class, tier), members in classes.items():
        total_ns = sum(row.total_ns for row in members)
        launches = sum(row.launches for row in members)
        figures = _figures(launches, total_ns, count, whole_ns)
        shown.append((kernel_class, tier, str(len(members)), *figures))
    columns = (
        Column("class", is_name=True, most=_NAME_WIDTH),
        Column("tier"),
        Column("kernels", justify_right=True, left_out=2),
        *_FIGURES,
    )
    print_table(console, columns, shown)


def _print_rows(console: Console, rows: list[KernelRow], count: int, whole_ns: int) -> None:
    columns = (
        Column("kernel", is_name=True, most=_NAME_WIDTH),
        Column("class", left_out=2),
        Column("tier"),
        *_FIGURES,
    )
    print_table(
        console,
        columns,
        [
            (
                *(row.name, row.kernel_class, row.tier),
                *_figures(row.launches, row.total_ns, count, whole_ns),
            )
            for row in rows
        ],
    )


def _figures(launches: int, total_ns: int, count: int, whole_ns: int) -> tuple[str, str, str]:
    share = total_ns / whole_ns if whole_ns else 0.0
    return f"{launches / count:.4g}", duration_text(total_ns / count), percent_text(share)
