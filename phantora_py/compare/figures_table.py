"""The table of runs on a terminal: as wide as there is room, no figure ever broken."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from phantora_py.compare.figures import Column

# What `box.SIMPLE_HEAD` takes beside a column's text.
_BESIDE = 3
# Beyond that a second table is easier to read (assumed).
_MOST_TITLE_LINES = 3


def figures_tables(names: Sequence[str], columns: Sequence[Column], width: int) -> Iterator[Table]:
    """One table of all columns if it fits into `width`, else several beneath each other, each with
    the names. Titles are broken at blanks, names anywhere if they take more than half.
    """
    named = Column("", list(names))
    widest = max((_width(column, _MOST_TITLE_LINES) for column in columns), default=0)
    beside_widest = max(width + 1 - 2 * _BESIDE - widest, 1)
    name_width = min(_text_width(named), width // 2, beside_widest)
    for lines in range(1, _MOST_TITLE_LINES + 1):
        widths = [_width(column, lines) for column in columns]
        if _table_width([name_width, *widths]) <= width:
            break
    begin = 0
    while begin < len(columns):
        end = begin + 1
        while end < len(columns) and _table_width([name_width, *widths[begin : end + 1]]) <= width:
            end += 1
        yield _table(named, columns[begin:end], [name_width, *widths[begin:end]])
        begin = end


def _text_width(column: Column) -> int:
    return max(map(len, column.texts), default=0)


def _width(column: Column, title_lines: int) -> int:
    """The least in which the title takes no more lines than these, as far as its words allow."""
    title = column.title
    least = max(map(len, title.split()), default=0)
    widths = range(least, len(title) + 1)
    fits = (width for width in widths if len(textwrap.wrap(title, width)) <= title_lines)
    return max(_text_width(column), next(fits, least))


def _table_width(widths: Sequence[int]) -> int:
    return sum(widths) + _BESIDE * len(widths) - 1


def _table(named: Column, columns: Sequence[Column], widths: Sequence[int]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for column, width in zip((named, *columns), widths, strict=True):
        table.add_column(column.title, overflow="fold", width=width)
    for name, *texts in zip(named.texts, *(column.texts for column in columns), strict=True):
        table.add_row(Text(name, style="bold"), *map(Text, texts))
    return table
