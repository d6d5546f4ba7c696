"""`phantora doctor -- COMMAND`: what a program may call and we do not model."""

import argparse
import json
import os
from collections import Counter
from dataclasses import asdict

from rich.text import Text

from phantora_py.coverage import REACHES
from phantora_py.coverage.forecast import NOT_KNOWN, Package, forecast
from phantora_py.launch.command import Command, understand
from phantora_py.text.tables import Column, print_table, table_console
from sim_server.errors import UnsupportedCall, UsageError

_MOST_NAMES = 3
"""Of calls in a row of the table."""
_COLUMNS = (
    Column("package", is_name=True),
    Column("library"),
    Column("reached", left_out=1),
    Column("calls"),
    Column("such as", is_name=True),
)


def run(options: argparse.Namespace) -> int:
    """Prints the forecast. Exit code 3 if a package that the program names cannot work, else 0.

    Raises: UsageError for a command that cannot be run.
    """
    command = understand(options.command, os.environ)
    try:
        packages = forecast(command.program)
    except OSError as error:
        raise UsageError(f"The program's libraries cannot be read: {error}") from error
    if options.json:
        print(json.dumps(_to_json(command, packages), indent=1))
    else:
        _print(command, packages)
    stops = any(package.named and package.troubles for package in packages)
    return UnsupportedCall.exit_code if stops else 0


def _to_json(command: Command, packages: list[Package]) -> dict[str, object]:
    return {
        "command": list(command.words),
        "packages": [
            {
                "name": package.name,
                "named": package.named,
                "troubles": package.troubles,
                "gaps": [asdict(gap) for gap in sorted(package.gaps)],
            }
            for package in packages
        ],
        "not_known": list(NOT_KNOWN),
    }


def _print(command: Command, packages: list[Package]) -> None:
    console = table_console()
    torch = command.program.torch
    console.print(Text(str(command), "bold"))
    if torch is not None:
        console.print(f"torch {torch.version} (CUDA {torch.cuda}) in {torch.directory}")
    rows = []
    for package in packages:
        for (library, how), count in sorted(_counts(package).items()):
            names = [
                gap.symbol
                for gap in sorted(package.gaps)
                if (gap.library, gap.how) == (library, how)
            ]
            more = " ..." if count > _MOST_NAMES else ""
            rows.append(
                (
                    *(package.name if package.named else f"({package.name})", library, how),
                    *(str(count), " ".join(names[:_MOST_NAMES]) + more),
                )
            )
    if rows:
        console.print("Calls that its libraries may make and that are not modelled")
        print_table(console, _COLUMNS, rows)
        for how, meaning in REACHES.items():
            if how != meaning:
                console.print(f"{how}: {meaning.replace('`', '')}")
        console.print(
            "In brackets: installed, and imported by no file of the program's own; by another "
            "package, perhaps."
        )
        console.print(
            "A run stops at the first of these calls that is made; --unsupported lets it go on."
        )
    else:
        console.print("Its libraries can make no call that is not modelled.")
    for package in packages:
        name = Text(package.name, "red" if package.named else "")
        for trouble in package.troubles:
            console.print(Text.assemble(name, f": {trouble}"))
    console.print("Not known before a run:")
    for text in NOT_KNOWN:
        console.print(f"  {text}")


def _counts(package: Package) -> Counter[tuple[str, str]]:
    return Counter((gap.library, gap.how) for gap in package.gaps)
