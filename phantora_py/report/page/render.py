"""Makes the page of a data file: gathers what its template shows."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phantora_py import __version__
from phantora_py.data import RunData
from phantora_py.report.asked import Asked
from phantora_py.report.page.overview import deadlock_tables
from phantora_py.report.page.part import PageFindings
from phantora_py.report.page.tables import Basis
from phantora_py.report.page.template import fill, write
from phantora_py.report.sections import unsimulated, unsupported
from phantora_py.report.summary import Summary, page_parts, summarise
from phantora_py.report.throughput import Taken
from phantora_py.report.window import Window


def write_page(
    data: RunData,
    path: Path,
    told: Mapping[str, Taken] | None = None,
    asked: Asked | None = None,
) -> int:
    """Write the page of a run. `told`, `asked`: see `Findings`. Returns its size in bytes.

    Raises: UsageError if `path` cannot be written, or is the data file itself.
    """
    return write(path, lambda: make_page(data, told, asked), [data.path])


def make_page(
    data: RunData, told: Mapping[str, Taken] | None = None, asked: Asked | None = None
) -> str:
    """The page. Everything that comes from the run is escaped."""
    return fill("page.html", _views(PageFindings(data, told, asked)))


def _not_full(summary: Summary) -> list[str]:
    """What the result lacks."""
    trust = summary["trust"]
    marks = unsupported.mark(trust["unsupported"]), unsimulated.mark(trust["unsimulated"])
    return [one for one in marks if one]


def _views(found: PageFindings) -> dict[str, Any]:
    """What the template shows: of all sections, then of each. No two have the same name."""
    data, parts = found.data, [part for part in page_parts() if part.is_shown(found)]
    summary, window = summarise(data, found), found.window
    basis = Basis(data, window)
    views: dict[str, Any] = {
        "title": f"{data.path.name} - phantora",
        "file_name": data.path.name,
        "version": __version__,
        "command": shlex.join(data.run["command"]),
        "sections": [(part.name, part.title) for part in parts],
        "summary": summary,
        "not_full": _not_full(summary),
        "timeline_text": _timeline_text(window),
        "basis": basis.text,
        "basis_whole": basis.whole_text,
        "window_text": "all iterations after the first" if window.iterations else "the whole run",
        "deadlock": deadlock_tables(data),
    }
    for part in parts:
        of_part = part.views(found)
        assert views.keys().isdisjoint(of_part), f"{part.name} has names of others"
        views |= of_part
    return views


def _timeline_text(window: Window) -> str:
    """What part of the run is drawn."""
    return "The last whole iteration." if window.iterations else "The whole run."
