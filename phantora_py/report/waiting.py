"""Who made others wait: ranks that came last to an operation, and where.

An operation moves when its last rank has arrived. Whether the others' waiting cost time is another
question: exposed.py tells what of it nothing hid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from phantora_py.data import RunData
from phantora_py.report.communication import Layouts
from phantora_py.report.window import Window
from sim_server.deadlock import ranges_text


@dataclass(frozen=True)
class WaitingRow:
    """Operations of one kind and Python line to which the same ranks came last. Units: ns."""

    ranks: str
    """GPUs, where ranks use several."""
    kind: str
    layout: str
    site: str
    """Of the operation's first rank."""
    operations: int
    waited_ns: int
    """By all other ranks together."""
    late_ns: int
    """From the arrival of the last of the others on: what these ranks alone cost."""


def waiting_rows(data: RunData, window: Window) -> list[WaitingRow]:
    """Most waited for first. Operations to which all came at once are left out."""
    layouts = Layouts(data)
    rows: dict[tuple[str, str, str, str], list[int]] = {}
    for operation in window.operations_in(data):
        late = _lateness(operation)
        if late is None:
            continue
        ranks, waited_ns, late_ns = late
        key = (ranks, operation["kind"], layouts.of(operation), operation["site"])
        sums = rows.setdefault(key, [0, 0, 0])
        for place, value in enumerate((1, waited_ns, late_ns)):
            sums[place] += value
    found = [WaitingRow(*key, *sums) for key, sums in rows.items()]
    return sorted(found, key=lambda row: (-row.waited_ns, row.ranks, row.kind, row.site))


def _lateness(operation: dict[str, Any]) -> tuple[str, int, int] | None:
    """Last ranks, what the others waited in all, and by how much these were later."""
    arrivals_ns, last_ns = operation["arrivals_ns"], max(operation["arrivals_ns"])
    others_ns = [one for one in arrivals_ns if one < last_ns]
    if not others_ns:
        return None
    arrived = zip(operation["members"], arrivals_ns, strict=True)
    ranks = ranges_text(rank for rank, arrival_ns in arrived if arrival_ns == last_ns)
    return ranks, len(others_ns) * last_ns - sum(others_ns), last_ns - max(others_ns)
