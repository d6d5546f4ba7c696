"""What the benchmarks share: their options, their results as a table or as JSON, medians of rounds.

A benchmark compares what it measured in one run, in turn; wall times of different runs on a shared
machine say little.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

Row = Mapping[str, str | float | None]


@dataclass
class Results:
    """Rows of one benchmark. `columns`: their keys, which are the headings of the table too."""

    title: str
    columns: Sequence[str]
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, *values: str | float | None) -> None:
        """A row, in the order of the columns; None where there is no such number."""
        self.rows.append(dict(zip(self.columns, values, strict=True)))

    def show(self, as_json: bool) -> None:
        """Prints everything to standard output."""
        if as_json:
            print(
                json.dumps({"title": self.title, "rows": self.rows, "notes": self.notes}, indent=1)
            )
            return
        table = Table(title=self.title, title_justify="left")
        for column in self.columns:
            table.add_column(column, justify="left" if column == self.columns[0] else "right")
        for row in self.rows:
            table.add_row(*(_shown(row[column]) for column in self.columns))
        console = Console()
        console.print(table)
        for note in self.notes:
            console.print(note, highlight=False)


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that all benchmarks have."""
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return options


def median(values: Iterable[float]) -> float:
    """Median of the rounds of one quantity."""
    return statistics.median(values)


def _shown(value: str | float | None) -> str:
    """Three significant digits."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
