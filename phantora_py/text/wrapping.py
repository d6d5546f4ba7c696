"""Lines that are wider than the terminal: broken between figures, not within."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from phantora_py.text.consoles import plain_console

# What two blanks or less hold together is one figure with its name.
_FIELD = re.compile(r"\S+(?: {1,2}\S+)*")
_WORD = re.compile(r"\S+")
# Of what goes on in the next line, beyond the line's own.
_INDENT = 4
# The first column of labels: what follows stays beside it.
_LABEL = 10

Span = tuple[int, int]
"""Where a part of a line begins and ends."""


def print_lines(lines: Iterable[Text], console: Console | None = None) -> None:
    """Prints lines: broken on a terminal, whole elsewhere, to be searched and copied."""
    console = console or plain_console(soft_wrap=True)
    for line in lines:
        for part in wrapped(line, console.width) if console.is_terminal else [line]:
            console.print(part)


def wrapped(line: Text, width: int) -> list[Text]:
    """`line` in lines of `width`, those after the first further in. A field that is wider than the
    terminal is broken between words, and a word after a slash, or where the line ends.
    """
    text = line.plain
    if line.cell_len <= width or not text.strip():
        return [line]
    indent = len(text) - len(text.lstrip())
    further = indent + _INDENT
    parts = list(_parts(text, width, indent))
    lines, begin, room = [], 0, width
    for (_, before), (start, end) in itertools.pairwise(parts):
        if end - begin > room and before > indent + _LABEL:
            lines.append(line[begin:before])
            begin, room = start, width - further
    lines.append(line[begin:])
    blank = Text(" " * further)
    return [lines[0], *(blank + one for one in lines[1:])]


def _parts(text: str, width: int, indent: int) -> Iterator[Span]:
    """What is not broken: fields, else words, else pieces of words."""
    before = 0

    def room(start: int) -> int:
        """What stands beside the label has less."""
        taken = start if before <= indent + _LABEL else indent + _INDENT
        return max(width - taken, 1)

    for field in _FIELD.finditer(text):
        is_wide = field.end() - field.start() > room(field.start())
        for word in _WORD.finditer(text, *field.span()) if is_wide else [field]:
            start, end = word.span()
            while end - start > room(start):
                slash = text.rfind("/", start + 1, start + room(start))
                before = slash + 1 if slash > 0 else start + room(start)
                yield start, before
                start = before
            before = end
            yield start, end
