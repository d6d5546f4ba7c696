"""What the benchmarks of kernel models share: their command line, and the page that they write."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

Lines = Callable[[Path], Iterator[str]]


def command(
    description: str | None, page: Path, mark: str, tables: Lines, coefficients: Lines | None = None
) -> int:
    """Print the lines that `tables` makes of a folder of measurements, as they come.

    With `--write` they replace what follows `mark` on `page`. With `--coefficients`, where there is
    such a choice, those lines are printed instead, and never written. Returns the exit code: 2 if
    the folder is not one.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="of the measurements")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--write", action="store_true", help=f"into docs/{page.name}")
    if coefficients is not None:
        choice.add_argument("--coefficients", action="store_true", help="print a fit to everything")
    chosen = vars(parser.parse_args())
    folder: Path = chosen["folder"]
    if not folder.is_dir():
        print(f"{folder} is no folder.", file=sys.stderr)
        return 2
    found = coefficients if coefficients is not None and chosen["coefficients"] else tables
    lines = []
    for line in found(folder):
        print(line, flush=True)
        lines.append(line)
    if chosen["write"]:
        before = page.read_text(encoding="utf-8").partition(mark)[0]
        page.write_text("\n".join([before + mark, "", *lines, ""]), encoding="utf-8")
    return 0
