"""A section's part of the page, and what several of them are made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from phantora_py.report.critical_path import Step, known_path
from phantora_py.report.findings import Findings
from phantora_py.report.window import Window, last_iteration


class PageFindings(Findings):
    """Of one run, each found once."""

    @cached_property
    def last(self) -> Window:
        """The last whole iteration, which is drawn."""
        return last_iteration(self.data, self.iterations)

    @cached_property
    def path(self) -> list[Step]:
        """Its critical path; empty if that is not known."""
        return known_path(self.data, self.last)


@dataclass(frozen=True)
class PagePart:
    """A section of the page."""

    name: str
    """Of its template, without `.html`, and of its place in the page."""
    title: str
    views: Callable[[PageFindings], Mapping[str, Any]]
    """What its template shows beside the summary."""
    is_shown: Callable[[PageFindings], bool] = lambda _: True
    """False: the page is without it."""
