"""Device memory: peaks per rank, and what did not fit."""

from __future__ import annotations

from operator import itemgetter
from typing import Any, TypedDict, cast

from rich.markup import escape

from phantora_py.report.findings import Findings
from phantora_py.report.page.memory_chart import memory_chart
from phantora_py.report.page.overview import memory_rows
from phantora_py.report.page.part import PageFindings, PagePart
from phantora_py.text.units import size_text

_MOST_FAILURES = 5


class OutOfMemory(TypedDict):
    """An allocation that did not fit."""

    rank: int
    asked_bytes: int
    free_bytes: int
    site: str
    """The Python line that asked."""


class MemorySummary(TypedDict):
    """Lists have an entry per rank; none if the run broke off."""

    capacity_bytes: int
    """Of the rank whose peak is highest."""
    peak_reserved_bytes: list[int]
    """By PyTorch's caching allocator."""
    peak_allocated_bytes: list[int]
    """Likewise."""
    peak_device_bytes: list[int]
    """Also context, NCCL and whatever else took device memory: this must fit."""
    fits: bool | None
    """Null if the run broke off."""
    out_of_memory: list[OutOfMemory]


def make(found: Findings) -> MemorySummary:
    """The entry of the summary."""
    data = found.data
    per_rank = data.memory["per_rank"]
    worst: dict[str, Any] = max(per_rank, key=itemgetter("device_peak_bytes"), default={})
    failures = [
        cast("OutOfMemory", {"rank": rank, **oom})
        for rank, memory in enumerate(per_rank)
        for oom in memory["oom"]
    ]
    return {
        # Files of earlier versions have one capacity for all.
        "capacity_bytes": worst.get("capacity_bytes", data.memory["capacity_bytes"]),
        "peak_reserved_bytes": [memory["reserved_peak_bytes"] for memory in per_rank],
        "peak_allocated_bytes": [memory["allocated_peak_bytes"] for memory in per_rank],
        "peak_device_bytes": [memory["device_peak_bytes"] for memory in per_rank],
        "fits": None if data.broke_off else not failures,
        "out_of_memory": failures,
    }


def lines(memory: MemorySummary) -> list[str]:
    """On a terminal."""
    peaks = memory["peak_device_bytes"]
    if not peaks:
        return ["  peak memory is not known, because the run broke off"]
    worst = max(range(len(peaks)), key=peaks.__getitem__)
    capacity = size_text(memory["capacity_bytes"])
    said = [
        f"  peak memory [bold]{size_text(peaks[worst])}[/] of {capacity} (rank {worst}; PyTorch "
        f"reserved {size_text(memory['peak_reserved_bytes'][worst])}, allocated "
        f"{size_text(memory['peak_allocated_bytes'][worst])})"
    ]
    for failure in memory["out_of_memory"][:_MOST_FAILURES]:
        said.append(
            f"  [red]rank {failure['rank']} ran out of memory[/]: "
            f"asked {size_text(failure['asked_bytes'])}, free {size_text(failure['free_bytes'])}, "
            f"at {escape(failure['site'])}"
        )
    return said


def _views(found: PageFindings) -> dict[str, Any]:
    return {
        "memory_rows": memory_rows(found.data),
        **memory_chart(found.data, found.iterations),
    }


PAGE = PagePart("memory", "Memory", _views)
