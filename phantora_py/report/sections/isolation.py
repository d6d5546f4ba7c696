"""How ranks were kept from seeing this machine."""

from __future__ import annotations

from typing import TypedDict

from rich.markup import escape

from phantora_py.report.findings import Findings


class Isolation(TypedDict):
    """Of the ranks from this machine."""

    tier: str
    reason: str


def make(found: Findings) -> Isolation:
    """The entry of the summary."""
    made: Isolation = found.data.run["isolation"]
    return made


def lines(isolation: Isolation) -> list[str]:
    """On a terminal."""
    return [f"  isolation  {isolation['tier']}: {escape(isolation['reason'])}"]
