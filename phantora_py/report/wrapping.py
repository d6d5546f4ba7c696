"""Lines that are wider than the terminal: broken between figures, not within."""

from __future__ import annotations

import itertools
import re

from rich.text import Text

# What two blanks or less hold together is one figure with its name.
_FIELD = re.compile(r"\S+(?: {1,2}\S+)*")
_WORD = re.compile(r"\S+")
# Of what goes on in the next line, beyond the line's own.
_INDENT = 4
# The first column of labels: what follows stays beside it.
_LABEL = 10


def wrapped(line: Text, width: int) -> list[Text]:
    """`line` in lines of `width`, those after the first further in. A field that is wider than the
    terminal is broken between words.
    """
    text = line.plain
    if line.cell_len <= width or not text.strip():
        return [line]
    indent = len(text) - len(text.lstrip())
    further = indent + _INDENT
    parts: list[tuple[int, int]] = []
    for field in _FIELD.finditer(text):
        is_wide = field.end() - field.start() > width - further
        pieces = _WORD.finditer(text, *field.span()) if is_wide else [field]
        parts += [piece.span() for piece in pieces]
    lines, begin, room = [], 0, width
    for (_, before), (start, end) in itertools.pairwise(parts):
        if end - begin > room and before - begin > (indent + _LABEL if begin == 0 else 0):
            lines.append(line[begin:before])
            begin, room = start, width - further
    lines.append(line[begin:])
    blank = Text(" " * further)
    return [lines[0], *(blank + one for one in lines[1:])]
