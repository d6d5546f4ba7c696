"""The small tables at the page's head: parts of the iteration, memory, what was not modelled."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from phantora_py.data import RunData
from phantora_py.report.sections.breakdown import BreakdownTimes, exclusive_ns
from sim_server.deadlock import ranges_text

_PEAKS = ("device_peak_bytes", "reserved_peak_bytes", "allocated_peak_bytes")
_PARTS = ("context_bytes", "nccl_bytes")

_MEANINGS = {
    "compute": "kernels, copies and fills run",
    "exposed communication": "bytes move between ranks, and nothing is computed",
    "waiting for ranks": "operations wait for their last rank, and nothing else happens",
    "host": "the device is empty because the host had not issued the next work",
    "idle": "the device is empty for another reason",
}


@dataclass(frozen=True)
class Part:
    """A part of the mean iteration."""

    name: str
    time_ns: int
    share: float
    meaning: str


@dataclass(frozen=True)
class MemoryRow:
    """Peaks of ranks that agree in all of them. Units: bytes."""

    ranks: str
    count: int
    device_peak_bytes: int
    reserved_peak_bytes: int
    allocated_peak_bytes: int
    context_bytes: int
    nccl_bytes: int


def memory_rows(data: RunData) -> list[MemoryRow]:
    """Most memory first; none if the run broke off."""
    ranks: dict[tuple[int, ...], list[int]] = {}
    for rank, memory in enumerate(data.memory["per_rank"]):
        ranks.setdefault(tuple(memory[key] for key in (*_PEAKS, *_PARTS)), []).append(rank)
    ordered = sorted(ranks.items(), key=lambda item: (-item[0][0], item[1]))
    return [MemoryRow(ranges_text(alike), len(alike), *peaks) for peaks, alike in ordered]


def iteration_parts(times: BreakdownTimes) -> list[Part]:
    """What adds up to the mean iteration; nothing if no iteration was found."""
    times_ns = exclusive_ns(times)
    whole_ns = sum(times_ns.values())
    return [
        Part(name, time_ns, time_ns / whole_ns if whole_ns else 0.0, _MEANINGS[name])
        for name, time_ns in ((key.replace("_", " "), ns) for key, ns in times_ns.items())
    ]


def ignored_calls(data: RunData) -> list[tuple[str, int]]:
    """Symbols whose calls do nothing here, most frequent first."""
    counts: Counter[str] = Counter()
    for library in data.calls.values():
        counts.update(library["ignored"])
    return counts.most_common()


def deadlock_tables(data: RunData) -> list[dict[str, Any]]:
    """The tables of the deadlock report, ranks as text."""
    return [
        {
            "title": table["title"],
            "rows_of_ranks": [row | {"ranks": ranges_text(row["ranks"])} for row in table["rows"]],
        }
        for table in data.run.get("deadlock", [])
    ]
