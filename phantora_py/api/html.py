"""Small tables of HTML, for the output of a notebook's cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(head: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = ()) -> str:
    """Rows whose first cell is their name, and sentences beneath. All texts are escaped. `head`:
    empty for a table without one.
    """
    parts = ["<table>"]
    if head:
        parts.append(f"<thead>{_row(head, first='th', other='th')}</thead>")
    parts.append("<tbody>")
    parts += [_row(row, first="th", other="td") for row in rows]
    parts.append("</tbody></table>")
    parts += [f"<p>{escape(note)}</p>" for note in notes]
    return "".join(parts)


def _row(cells: Sequence[str], *, first: str, other: str) -> str:
    tags = [first, *[other] * (len(cells) - 1)]
    texts = zip(tags, cells, strict=True)
    return "<tr>" + "".join(f"<{tag}>{escape(text)}</{tag}>" for tag, text in texts) + "</tr>"
