"""A comparison as Markdown, for a pull request or a job's summary."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from phantora_py.compare.figures import NONE, figure_columns
from phantora_py.compare.json_types import JudgedComparison, Verdict


def markdown(comparison: JudgedComparison) -> str:
    """Tables of the runs and of the gates, with the notes between them. Ends with a newline. Names
    stand as they are: what means something in Markdown is escaped.
    """
    runs = comparison["runs"]
    columns = figure_columns(runs)
    texts = zip([run["name"] for run in runs], *(one.texts for one in columns), strict=True)
    lines = [*_table(["run", *(one.title for one in columns)], texts)]
    for note in comparison["notes"]:
        lines += ["", _escaped(note)]
    if comparison["gates"]:
        head = ["gate", "run", "ratio to the first", "verdict"]
        lines += ["", *_table(head, map(_verdict, comparison["gates"]))]
    return "\n".join(lines) + "\n"


def _verdict(verdict: Verdict) -> Sequence[str]:
    ratio = NONE if verdict["ratio"] is None else f"{verdict['ratio']:.4g}"
    return verdict["gate"], verdict["name"], ratio, "met" if verdict["met"] else "not met"


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[str]:
    for cells in (head, *rows):
        yield f"| {' | '.join(map(_escaped, cells))} |"
        if cells is head:
            yield f"| {' | '.join(['---'] * len(head))} |"


def _escaped(text: str) -> str:
    """`text` on one line, without a meaning in Markdown or HTML."""
    return re.sub(r"([\\`*_\[\]<>|~&])", r"\\\1", " ".join(text.split()))
