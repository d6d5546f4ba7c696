"""Makes the page of a data file: gathers what its template shows."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from phantora_py import __version__
from phantora_py.data import RunData
from phantora_py.report.certainty import DoubtfulClass
from phantora_py.report.communication import communication_rows
from phantora_py.report.critical_path import known_path
from phantora_py.report.iterations import find_iterations
from phantora_py.report.kernels import doubts
from phantora_py.report.page.link_strips import link_strips
from phantora_py.report.page.memory_chart import memory_chart
from phantora_py.report.page.overview import (
    deadlock_tables,
    ignored_calls,
    iteration_parts,
    memory_rows,
)
from phantora_py.report.page.path import path_tables
from phantora_py.report.page.tables import Basis, exposed_table, kernel_tables, waiting_table
from phantora_py.report.page.template import fill, write
from phantora_py.report.page.timeline_data import timeline_data
from phantora_py.report.sections.iteration import NO_TIME, apart_text, clock_warning, meaning
from phantora_py.report.sections.unknown_reads import difference_text
from phantora_py.report.sections.unsupported import ANSWERS, mark
from phantora_py.report.summary import Summary, summarise
from phantora_py.report.timeline import make_timeline
from phantora_py.report.window import Window, last_iteration, steady_window

_SECTIONS = (
    ("iteration", "Iteration"),
    ("timeline", "Timeline"),
    ("path", "Critical path"),
    ("trust", "Trust"),
    ("kernels", "Kernels"),
    ("communication", "Communication"),
    ("links", "Links"),
    ("memory", "Memory"),
    ("facts", "Facts"),
)
"""Identifiers, which are the names of the templates too, and titles, in the order of the page."""

# Of each tier: more would not be read (assumed).
_DOUBTS = 5
# With uneven host time every rank is late somewhere.
_WAITS = 200


def write_page(data: RunData, path: Path) -> int:
    """Write the page of a run. Returns its size in bytes.

    Raises: UsageError if `path` cannot be written, or is the data file itself.
    """
    return write(path, lambda: make_page(data), [data.path])


def make_page(data: RunData) -> str:
    """The page. Everything that comes from the run is escaped."""
    return fill("page.html", _views(data))


def _views(data: RunData) -> dict[str, Any]:
    """What the template shows."""
    iterations = find_iterations(data)
    window = steady_window(data, iterations)
    basis = Basis(data, window)
    last = last_iteration(data, iterations)
    path = known_path(data, last)
    timeline = make_timeline(data, last, path)
    summary = summarise(data)
    return {
        "title": f"{data.path.name} - phantora",
        "file_name": data.path.name,
        "version": __version__,
        "command": shlex.join(data.run["command"]),
        "run": data.run,
        "sections": _SECTIONS,
        "summary": summary,
        "parts": iteration_parts(summary),
        "iteration_meaning": meaning(summary["iterations"]),
        "iteration_apart": apart_text(summary["iterations"]),
        "clock_warning": clock_warning(summary["iterations"]),
        "longest_ns": max(summary["iterations"]["per_iteration_ns"], default=0),
        "doubts": doubts(data, _DOUBTS, _doubtful_classes(summary)),
        "ignored": ignored_calls(data),
        "answers": ANSWERS,
        "no_time": NO_TIME,
        "difference_text": difference_text,
        "unsupported_mark": mark(summary["trust"]["unsupported"]),
        "timeline": timeline_data(timeline),
        **path_tables(data, path),
        "timeline_text": _timeline_text(window),
        "merged_below_ns": timeline.merged_below_ns,
        "basis": basis.text,
        "basis_whole": basis.whole_text,
        "window_text": "all iterations after the first" if window.iterations else "the whole run",
        **kernel_tables(data, window),
        "exposed": exposed_table(data, window),
        **waiting_table(data, window, _WAITS),
        "collectives": communication_rows(data, window),
        **link_strips(data, last),
        "memory_rows": memory_rows(data),
        **memory_chart(data, iterations),
        "deadlock": deadlock_tables(data),
    }


def _doubtful_classes(summary: Summary) -> list[DoubtfulClass]:
    interval = summary["trust"]["interval"]
    return interval["classes"] if interval else []


def _timeline_text(window: Window) -> str:
    """What part of the run is drawn."""
    return "The last whole iteration." if window.iterations else "The whole run."
