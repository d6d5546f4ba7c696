"""Small tables of HTML, for the output of a notebook's cell.

Styles stand at the elements: a notebook has its own for tables, and aligns all to the right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

# Where a figure may be broken: before its range, and within it.
_IN_FIGURE = re.compile(r" (?=to |\()")
_IN_TITLE = re.compile(" ")
_LEFT = ' style="text-align: left"'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = ()) -> str:
    """Figures in columns, each row with its name before it, and sentences beneath. All texts are
    escaped.
    """
    titles = "".join(f"<th>{_unbroken(title, _IN_TITLE)}</th>" for title in head[1:])
    parts = [f"<thead><tr><th{_LEFT}>{escape(head[0])}</th>{titles}</tr></thead><tbody>"]
    for name, *figures in rows:
        cells = "".join(f"<td>{_unbroken(figure, _IN_FIGURE)}</td>" for figure in figures)
        parts.append(f"<tr><th{_LEFT}>{escape(name)}</th>{cells}</tr>")
    return _framed("".join([*parts, "</tbody>"]), notes)


def listing(rows: Iterable[tuple[str, str]], notes: Iterable[str] = ()) -> str:
    """Texts, each with its name before it, and sentences beneath. All texts are escaped."""
    cells = (
        f"<tr><th{_LEFT}>{_unbroken(name, _IN_FIGURE)}</th><td{_LEFT}>{escape(text)}</td></tr>"
        for name, text in rows
    )
    return _framed(f"<tbody>{''.join(cells)}</tbody>", notes)


def _framed(rows: str, notes: Iterable[str]) -> str:
    """What is wider than the notebook is scrolled."""
    sentences = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return f'<div style="overflow-x: auto"><table>{rows}</table></div>{sentences}'


def _unbroken(text: str, breaks: re.Pattern[str]) -> str:
    """A text that lines end in only at `breaks`."""
    parts = (escape(part) for part in breaks.split(text))
    return " ".join(f'<span style="white-space: nowrap">{part}</span>' for part in parts)
