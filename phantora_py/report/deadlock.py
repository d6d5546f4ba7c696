"""Draws the tables of a deadlock report (sim_server/deadlock.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from phantora_py.text.tables import table_console
from phantora_py.text.units import duration_text
from sim_server.deadlock import ranges_text

# The rest is in the data file.
_MOST_TABLES = 12
# Of output that is no terminal: most lines of Python fit (assumed).
_PLAIN_WIDTH = 140


def print_deadlock(console: Console, tables: Sequence[Mapping[str, Any]]) -> None:
    """Prints one table per communicator and operation, no wider than the terminal."""
    wide = table_console(console, _PLAIN_WIDTH)
    for table in tables[:_MOST_TABLES]:
        wide.print(_drawn(table))
    if len(tables) > _MOST_TABLES:
        console.print(f"and {len(tables) - _MOST_TABLES} more, in run.json of the data file")


def _drawn(table: Mapping[str, Any]) -> Table:
    drawn = Table(
        title=Text(table["title"], style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    drawn.add_column("ranks", overflow="fold")
    drawn.add_column("what they do", overflow="fold")
    drawn.add_column("since (virtual)", no_wrap=True)
    drawn.add_column("Python line", overflow="fold")
    for row in table["rows"]:
        since_ns = row["since_ns"]
        drawn.add_row(
            ranges_text(row["ranks"]) or "?",
            Text(row["state"]),
            "" if since_ns is None else duration_text(since_ns),
            Text(row["site"]),
        )
    return drawn
