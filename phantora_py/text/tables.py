"""Tables that fit the terminal: figures stay whole, names are broken between words.

Where that is not enough, columns are left out, and a line names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from phantora_py.text.consoles import plain_console

# Of output that is no terminal (assumed: names of kernels are long).
_PLAIN_WIDTH = 160
# What `box.SIMPLE_HEAD` takes beside a column's text.
_BESIDE = 3
# In which a long name can still be read (assumed).
_LEAST_NAME = 16


@dataclass(frozen=True)
class Column:
    """A column of figures or, if `is_name`, of names that may be broken."""

    title: str
    is_name: bool = False
    justify_right: bool = False
    most: int | None = None
    """The width that it takes at most."""
    left_out: int = 0
    """On a narrow terminal the column with the greatest number is left out first; 0: never."""


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A column with its texts and how wide these may be."""

    column: Column
    texts: Sequence[Text]

    @cached_property
    def least(self) -> int:
        """The width of the longest figure, or in which a name can be read."""
        words = [*self.column.title.split()]
        if not self.column.is_name:
            return max(map(cell_len, (*words, *(text.plain for text in self.texts))), default=1)
        in_texts = max(
            (cell_len(word) for text in self.texts for word in text.plain.split()), default=1
        )
        return max(*map(cell_len, words or [""]), min(in_texts, _LEAST_NAME))

    @cached_property
    def wanted(self) -> int:
        """The width in which nothing is broken."""
        wanted = max(cell_len(self.column.title), *(text.cell_len for text in self.texts), 1)
        return max(self.least, min(wanted, self.column.most or wanted))


def table_console(console: Console | None = None, plain_width: int = _PLAIN_WIDTH) -> Console:
    """Where tables go: as wide as the terminal, or as `plain_width` if it is none."""
    console = console or plain_console()
    width = console.width if console.is_terminal else plain_width
    return Console(file=console.file, width=width, markup=False, emoji=False, highlight=False)


def print_table(
    console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str | Text]]
) -> None:
    """Prints a table, and beneath it what the terminal had no room for."""
    texts = [[one if isinstance(one, Text) else Text(one) for one in row] for row in rows]
    fitted = [
        _Fitted(column, [row[place] for row in texts]) for place, column in enumerate(columns)
    ]
    shown = _that_fit(fitted, console.width)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for one, width in zip(shown, _widths(shown, console.width), strict=True):
        table.add_column(
            one.column.title,
            overflow="fold",
            width=width,
            justify="right" if one.column.justify_right else "left",
        )
    for cells in zip(*(one.texts for one in shown), strict=True):
        table.add_row(*cells)
    console.print(table)
    if missing := [one.column.title for one in fitted if one not in shown]:
        console.print(f"A wider terminal also shows: {', '.join(missing)}.")


def _that_fit(columns: list[_Fitted], width: int) -> list[_Fitted]:
    """The columns without those that there is no room for."""
    shown = list(columns)
    while sum(one.least for one in shown) > _room(len(shown), width):
        first = max(shown, key=lambda one: one.column.left_out)
        if not first.column.left_out:
            break
        shown.remove(first)
    return shown


def _widths(columns: Sequence[_Fitted], width: int) -> list[int]:
    """Figures get what they want before names do; names share what is left. On a terminal that is
    too narrow for the least, names give way.
    """
    widths = [one.least for one in columns]
    rest = _room(len(columns), width) - sum(widths)
    while rest < 0:
        names = [place for place, one in enumerate(columns) if one.column.is_name]
        widest = max(names, key=lambda place: widths[place], default=None)
        if widest is None or widths[widest] == 1:
            break
        widths[widest] -= 1
        rest += 1
    for is_name in (False, True):
        while rest > 0:
            growing = [
                place
                for place, one in enumerate(columns)
                if one.column.is_name == is_name and widths[place] < one.wanted
            ]
            if not growing:
                break
            widths[min(growing, key=lambda place: widths[place])] += 1
            rest -= 1
    return widths


def _room(columns: int, width: int) -> int:
    """What the texts of so many columns may take together."""
    return width - _BESIDE * columns + 1
