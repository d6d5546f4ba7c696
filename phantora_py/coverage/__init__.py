"""`phantora coverage`: which calls of the CUDA libraries are modelled, from the compiled tables.

The same rows make the terminal's tables and docs/coverage.md.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from rich.console import Console

from phantora_py.launch.interpreter import TESTED_TORCH
from phantora_py.launch.libraries import Row, Support, Table, read_tables, shim_directory
from phantora_py.text.tables import Column, print_table, table_console
from sim_server.errors import UsageError

NAME = "coverage"
HELP = "list which CUDA calls are simulated"

# The PyTorch releases whose calls were recorded (tools/record_symbols.py), the last one first.
RELEASES = tuple(".".join(map(str, release)) for release in reversed(TESTED_TORCH))
TORCH = RELEASES[0]

SUPPORT_WORDS = {
    Support.MODELLED: "modelled",
    Support.IGNORED: "ignored",
    Support.PASS_THROUGH: "passed through",
    Support.UNSUPPORTED: "unsupported",
    Support.UNDECLARED: "unsupported",
}
MISSING = frozenset({Support.UNSUPPORTED, Support.UNDECLARED})
# Every row is counted under one of these.
COUNT_HEADINGS = ("modelled", "partial", "ignored", "passed through", "unsupported")

# How torch reaches a call, and what that means.
REACHES = {
    "imported": "imported",
    "linalg": "imported by `libtorch_cuda_linalg.so`, loaded when `torch.linalg` first needs it",
    "looked-up": "looked up by name where a feature wants it",
}


@dataclass(frozen=True)
class TorchUse:
    """A symbol that torch reaches, in one of the ways of REACHES."""

    soname: str
    name: str
    how: str


def support_word(row: Row) -> str:
    """What a reader is told about a row."""
    return "partial" if row.partial else SUPPORT_WORDS[row.support]


def read_torch_uses(torch: str = TORCH) -> tuple[TorchUse, ...]:
    """What a release of torch may call, as recorded from its libraries.

    Raises: UsageError for a release that was not recorded.
    """
    if torch not in RELEASES:
        known = ", ".join(RELEASES)
        raise UsageError(f"The calls of torch {torch} were not recorded; those of {known} were.")
    file = resources.files("phantora_py") / "symbols" / f"torch-{torch}.txt"
    lines = file.read_text(encoding="ascii").splitlines()
    return tuple(TorchUse(*line.split()) for line in lines if not line.startswith("#"))


def read_tables_for(uses: Iterable[TorchUse]) -> tuple[Table, ...]:
    """The tables of the CUDA major that a release of torch was built for."""
    runtimes = {use.soname for use in uses if use.soname.startswith("libcudart.so.")}
    assert len(runtimes) == 1, f"a release of torch uses one CUDA runtime, not {runtimes}"
    return read_tables(shim_directory(int(runtimes.pop().rpartition(".")[2])))


def count_rows(tables: Iterable[Table]) -> list[tuple[str, ...]]:
    """A row of cells per library: name, SONAME, then the counts of COUNT_HEADINGS."""
    cells = []
    for table in tables:
        counts = Counter(support_word(row) for row in table.rows)
        numbers = (f"{counts[heading]:,}" for heading in COUNT_HEADINGS)
        cells.append((table.library, table.soname, *numbers))
    return cells


def torch_gaps(tables: Iterable[Table], uses: Iterable[TorchUse]) -> dict[str, list[TorchUse]]:
    """Per library, what torch may call and the run would stop at."""
    unsupported = {
        (table.soname, row.name): table.library
        for table in tables
        for row in table.rows
        if row.support in MISSING
    }
    gaps: dict[str, list[TorchUse]] = {}
    for use in uses:
        library = unsupported.get((use.soname, use.name))
        if library is not None:
            gaps.setdefault(library, []).append(use)
    return gaps


def gaps_beyond() -> dict[str, list[TorchUse]]:
    """By earlier release, what it may call and we do not model, and the last one does not call."""
    latest = {use.name for use in read_torch_uses()}
    beyond = {}
    for release in RELEASES[1:]:
        uses = read_torch_uses(release)
        gaps = torch_gaps(read_tables_for(uses), uses).values()
        beyond[release] = [use for gap in gaps for use in gap if use.name not in latest]
    return beyond


def markdown(
    tables: Sequence[Table], uses: Sequence[TorchUse], beyond: Mapping[str, Sequence[TorchUse]]
) -> str:
    """The page docs/coverage.md. `beyond`: see gaps_beyond."""
    lines = [
        "# Which calls are modelled",
        "",
        "Made by `phantora coverage --markdown` from the tables compiled into the libraries.",
        "",
        "*Partial*: modelled, except for what the note says. *Ignored*: success without effect,",
        "and why that is right. *Unsupported*: the run stops with exit code 3 and a message that",
        "names the call, the rank and the Python line, or goes on as `--unsupported` says.",
        "",
        *_markdown_table(("library", "SONAME", *COUNT_HEADINGS), count_rows(tables)),
        "",
        f"## What PyTorch {TORCH} may call and we do not model",
        "",
    ]
    for library, gap in torch_gaps(tables, uses).items():
        lines += [f"### {library}", ""]
        for how, meaning in REACHES.items():
            names = [f"`{use.name}`" for use in gap if use.how == how]
            if names:
                lines += [f"{len(names)} {meaning}: {', '.join(names)}", ""]
    for release, more in beyond.items():
        names = [f"`{use.name}` ({use.how})" for use in more]
        listed = ", ".join(names) or "nothing"
        lines += [f"PyTorch {release}, beyond what {TORCH} may call: {listed}.", ""]
    for table in tables:
        cells = [
            (f"`{row.name}`", support_word(row), row.note)
            for row in table.rows
            if row.support not in MISSING
        ]
        if cells:
            head = ("call", "support", "note")
            lines += [f"## {table.library}", "", *_markdown_table(head, cells), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def json_rows(tables: Iterable[Table], uses: Sequence[TorchUse]) -> list[dict[str, str]]:
    """Every call with what is said of it; if there are `uses`, those of them that are missing."""
    if uses:
        return [
            {"library": library, "soname": use.soname, "call": use.name, "reached": use.how}
            for library, gap in torch_gaps(tables, uses).items()
            for use in gap
        ]
    return [
        {
            "library": table.library,
            "soname": table.soname,
            "call": row.name,
            "support": support_word(row),
            "note": row.note,
        }
        for table in tables
        for row in table.rows
    ]


def _markdown_table(head: Sequence[str], cells: Iterable[Sequence[str]]) -> list[str]:
    rows = [head, ["---"] * len(head), *cells]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `phantora coverage`."""
    parser.add_argument(
        "--library", metavar="NAME", help="list every call of one library, e.g. cudart"
    )
    parser.add_argument(
        "--torch",
        nargs="?",
        const=TORCH,
        metavar="RELEASE",
        help=f"list calls that PyTorch may make and that are not modelled; RELEASE: "
        f"{', '.join(RELEASES)}; default: {TORCH}",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print a list of calls as JSON")
    form.add_argument("--markdown", action="store_true", help="print the page docs/coverage.md")


def run(options: argparse.Namespace) -> int:
    """Prints what was asked for; returns the exit code."""
    if options.markdown and options.torch:
        raise UsageError("--markdown makes the page of all releases; leave --torch out.")
    uses = read_torch_uses(options.torch) if options.torch else ()
    tables = read_tables_for(uses) if uses else read_tables(shim_directory())
    if options.library:
        tables = _select(tables, options.library)
    console = table_console()
    if options.json:
        print(json.dumps(json_rows(tables, uses), indent=1))
    elif options.markdown:
        print(markdown(tables, read_torch_uses(), gaps_beyond()), end="")
    elif options.torch:
        _print_torch_gaps(console, tables, uses, options.torch)
    elif options.library:
        _print_rows(console, tables[0])
    else:
        _print_counts(console, tables)
    return 0


def _select(tables: Sequence[Table], library: str) -> tuple[Table, ...]:
    selected = tuple(table for table in tables if table.library == library)
    if not selected:
        names = ", ".join(table.library for table in tables)
        raise UsageError(f"There is no library {library!r}; there are: {names}.")
    return selected


def _print_counts(console: Console, tables: Sequence[Table]) -> None:
    columns = [
        Column(heading, justify_right=True, left_out=int(heading == "passed through"))
        for heading in COUNT_HEADINGS
    ]
    rows = [(library, *counts) for library, _, *counts in count_rows(tables)]
    console.print("Calls by library")
    print_table(console, [Column("library"), *columns], rows)
    console.print("Next: phantora coverage --library cudart, or phantora coverage --torch")


def _print_rows(console: Console, table: Table) -> None:
    columns = (Column("call", is_name=True), Column("support"), Column("note", is_name=True))
    console.print(table.soname)
    print_table(console, columns, [(row.name, support_word(row), row.note) for row in table.rows])


def _print_torch_gaps(
    console: Console, tables: Sequence[Table], uses: Sequence[TorchUse], release: str
) -> None:
    gaps = torch_gaps(tables, uses)
    rows = []
    for library, gap in gaps.items():
        for how in REACHES:
            names = [use.name for use in gap if use.how == how]
            if names:
                rows.append((library, how, str(len(names)), " ".join(names)))
    columns = (*map(Column, ("library", "reached", "count")), Column("calls", is_name=True))
    console.print(f"Calls that stop a run, of those that torch {release} may make")
    print_table(console, columns, rows)
    sonames = {table.soname for table in tables}
    total = sum(use.soname in sonames for use in uses)
    console.print(f"{sum(map(len, gaps.values()))} of {total} calls.")
