"""The parts of the mean iteration."""

from __future__ import annotations

from typing import TypedDict

from phantora_py.report.findings import Findings
from phantora_py.text.units import percent_text


class BreakdownTimes(TypedDict):
    """Means over ranks and iterations, in ns; null without an iteration after the first."""

    compute: int | None
    """Kernels, copies and fills run."""
    communication: int | None
    """Bytes move between ranks, overlapped time too."""
    exposed_communication: int | None
    """Bytes move, and nothing is computed."""
    waiting_for_ranks: int | None
    """Operations wait for their last rank, and nothing is computed or moved."""
    host: int | None
    """The device is empty because the host had not issued the next work."""
    idle: int | None
    """The device is empty for another reason."""


def make(found: Findings) -> BreakdownTimes:
    """The entry of the summary."""
    parts = found.breakdown
    return {
        "compute": parts.compute_ns if parts else None,
        "communication": parts.communication_ns if parts else None,
        "exposed_communication": parts.exposed_communication_ns if parts else None,
        "waiting_for_ranks": parts.waiting_for_ranks_ns if parts else None,
        "host": parts.host_ns if parts else None,
        "idle": parts.idle_ns if parts else None,
    }


def exclusive_ns(times: BreakdownTimes) -> dict[str, int]:
    """The parts that add up to the iteration; empty without one. Communication is there as far as
    it is exposed.
    """
    parts = {
        "compute": times["compute"],
        "exposed_communication": times["exposed_communication"],
        "waiting_for_ranks": times["waiting_for_ranks"],
        "host": times["host"],
        "idle": times["idle"],
    }
    return {name: time_ns for name, time_ns in parts.items() if time_ns is not None}


def lines(times: BreakdownTimes) -> list[str]:
    """On a terminal."""
    parts_ns, communication_ns = exclusive_ns(times), times["communication"]
    if communication_ns is None:
        return []
    whole_ns = sum(parts_ns.values())

    def share(time_ns: int) -> str:
        return percent_text(time_ns / whole_ns if whole_ns else 0.0)

    return [
        f"  compute {share(parts_ns['compute'])}   communication {share(communication_ns)} "
        f"(exposed {share(parts_ns['exposed_communication'])})   "
        f"waiting for ranks {share(parts_ns['waiting_for_ranks'])}   "
        f"host {share(parts_ns['host'])}   idle {share(parts_ns['idle'])}"
    ]
