"""The summary of a run on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from phantora_py.data import RunData
from phantora_py.report.asked import Asked
from phantora_py.report.deadlock import print_deadlock
from phantora_py.report.findings import Findings
from phantora_py.report.summary import summarise, summary_lines
from phantora_py.report.throughput import Taken
from phantora_py.text.consoles import marked, plain_console
from phantora_py.text.wrapping import print_lines


def print_summary(
    path: Path,
    console: Console | None = None,
    iteration: str | None = None,
    told: Mapping[str, Taken] | None = None,
    asked: Asked | None = None,
) -> None:
    """Print the summary of the data file at `path`. `iteration`: see `RunData`; `told`, `asked`:
    see `Findings`.

    Raises: UsageError if it cannot be read.
    """
    console = console or plain_console(soft_wrap=True)
    data = RunData(path, iteration)
    print_lines(map(marked, summary_lines(summarise(data, Findings(data, told, asked)))), console)
    print_deadlock(console, data.run.get("deadlock", []))
