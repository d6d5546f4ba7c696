"""Where recorded host time came from."""

from __future__ import annotations

from typing import TypedDict, cast

from phantora_py.report.findings import Findings
from phantora_py.report.sections.words import counted
from phantora_py.text.units import percent_text

_LABELS = {"signature": "recorded", "family": "by kernel", "call": "by call", "fixed": "fixed"}


class GapSource(TypedDict):
    """Gaps from one source."""

    calls: int
    share: float
    """Of the charged host time."""


class HostGaps(TypedDict):
    """By where the gaps came from, with --host-time recorded."""

    signature: GapSource
    """The same launch."""
    family: GapSource
    """The same kernel in another shape."""
    call: GapSource
    """The same call."""
    fixed: GapSource
    """Not recorded: as --host-time fixed."""


def make(found: Findings) -> HostGaps | None:
    """None for the other models of host time, and if the run broke off."""
    data = found.data
    if data.run["host_time"] != "recorded" or data.broke_off:
        return None
    replayed = data.host_gaps["replayed"]
    whole_ns = sum(part["charged_ns"] for part in replayed.values())

    def source(part: dict[str, int]) -> GapSource:
        share = part["charged_ns"] / whole_ns if whole_ns else 0.0
        return {"calls": part["calls"], "share": share}

    return cast("HostGaps", {name: source(part) for name, part in replayed.items()})


def lines(gaps: HostGaps | None) -> list[str]:
    """On a terminal."""
    if gaps is None:
        return []
    sources = (gaps["signature"], gaps["family"], gaps["call"], gaps["fixed"])
    shares = "   ".join(
        f"{percent_text(source['share'])} {label}"
        for source, label in zip(sources, _LABELS.values(), strict=True)
    )
    return [f"  host time  {shares} ({counted(gaps['fixed']['calls'], 'call')} not recorded)"]
