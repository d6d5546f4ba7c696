"""`phantora report FILE`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from phantora_py.data import RunData
from phantora_py.report.summary import summarise
from phantora_py.report.terminal import print_summary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("file", type=Path, help="data file that `phantora run` wrote (.phr)")
    parser.add_argument(
        "--json", action="store_true", help="print the summary as JSON (docs/json.md)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the report. Returns the exit code."""
    if arguments.json:
        print(json.dumps(summarise(RunData(arguments.file)), indent=1))
    else:
        print_summary(arguments.file)
    return 0
