"""Where text is printed as it is.

Rich reads "[a]" as a style and ":key:" as a picture, also in a path or in a kernel's name.
"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text


def plain_console(*, stderr: bool = False, soft_wrap: bool = False) -> Console:
    """Prints strings without change; styles come with `Text`. `soft_wrap`: lines stay whole."""
    return Console(stderr=stderr, soft_wrap=soft_wrap, markup=False, emoji=False, highlight=False)


def marked(line: str) -> Text:
    """Of rich markup; a picture's name is left as it is."""
    return Text.from_markup(line, emoji=False)
