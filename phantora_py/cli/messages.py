"""How phantora speaks on the terminal: errors, and values on the command line."""

import re
import shlex
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from phantora_py.text.consoles import plain_console
from sim_server.errors import Deadlock, Interrupted, PhantoraError, UsageError

_TITLES = {
    2: "usage",
    3: "unsupported call",
    4: "a rank failed",
    5: "collectives",
    6: "short of what was asked for",
    70: "internal error",
}
_SIZE = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)?")
_RANKS = re.compile(r"(\d+)(?:-(\d+))?")
_SIZE_UNITS = {None: 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def error_console() -> Console:
    """Standard error; without colour if it is no terminal or NO_COLOR is set."""
    return plain_console(stderr=True, soft_wrap=True)


def print_written(data_file: Path) -> None:
    """Where the data of a run is, and what to do with it."""
    console = error_console()
    console.print(f"Wrote {data_file}")
    console.print(f"Next: phantora report {shlex.quote(str(data_file))}")


def print_error(error: PhantoraError) -> None:
    """Prints an error as `phantora: kind: message`; beneath a deadlock, who waits for whom."""
    sys.stdout.flush()
    is_interrupt = isinstance(error, Interrupted)
    title = "interrupted" if is_interrupt else _TITLES.get(error.exit_code, "error")
    console = error_console()
    console.print(Text.assemble((f"phantora: {title}: ", "bold red"), str(error)))
    if isinstance(error, Deadlock) and error.tables:
        from phantora_py.report.deadlock import print_deadlock  # noqa: PLC0415 - seldom needed

        print_deadlock(console, error.tables)


def parse_size_bytes(text: str) -> int:
    """`64KiB` as 65536. Raises: UsageError."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a size; write for example 64KiB (B, KiB, MiB, GiB).")
    return int(match[1]) * _SIZE_UNITS[match[2]]


def parse_share(text: str) -> float:
    """`80%` or `0.8` as 0.8. Raises: UsageError."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(f"{text!r} is not a share; write for example 80% or 0.8.")
    return share


def parse_ranks(text: str) -> frozenset[int]:
    """`0,8-15` as a set. Raises: UsageError."""
    ranks: set[int] = set()
    for part in text.split(","):
        match = _RANKS.fullmatch(part.strip())
        if match is None:
            raise UsageError(f"{part!r} is not a rank; write for example 3, 8-15 or 0,8-15.")
        ranks.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(ranks)
