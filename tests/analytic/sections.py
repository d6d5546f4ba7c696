"""The parts of a run that NVTX ranges mark, with times from the start of each part."""

from __future__ import annotations

from typing import Any

import numpy as np

from phantora_py.data import RunData
from sim_server.records import MarkerKind

KERNEL, COPY, COMMUNICATION = 1, 2, 4
Interval = tuple[int, int]


class Section:
    """All ranges of one name. Time 0 is where the first begins, on all ranks alike.

    Units: ns.
    """

    def __init__(self, data: RunData, name: str) -> None:
        self._data = data
        ranges = {rank: _ranges(data, rank, name) for rank in range(data.ranks)}
        ranges = {rank: found for rank, found in ranges.items() if found}
        starts = {found[0][0] for found in ranges.values()}
        assert len(starts) == 1, f"ranks begin {name} at {starts}"
        self._start_ns = starts.pop()
        self.ends_ns = {
            rank: [end_ns - self._start_ns for _, end_ns in found] for rank, found in ranges.items()
        }
        """By rank: when its host leaves each of the ranges."""

    @property
    def end_ns(self) -> dict[int, int]:
        """By rank: when its host leaves the only range."""
        assert all(len(ends) == 1 for ends in self.ends_ns.values())
        return {rank: ends[0] for rank, ends in self.ends_ns.items()}

    def kernels(self, rank: int, name: str = "", stream: int | None = None) -> list[Interval]:
        """When kernels ran whose name contains `name`, in the order of their starts."""
        named = [name in timing["name"] for timing in self._data.timings]
        return self._intervals(
            rank, KERNEL, lambda span: named[span["id"]] and stream in (None, span["stream"])
        )

    def copies(self, rank: int) -> list[Interval]:
        """When copies ran."""
        return self._intervals(rank, COPY, lambda _: True)

    def communication(self, rank: int, sender: int | None = None) -> list[Interval]:
        """From the arrival at the head of the stream to the end; those sent by `sender` only."""

        def is_meant(span: Any) -> bool:
            return sender in (None, self._data.operations[span["id"]]["members"][0])

        return self._intervals(rank, COMMUNICATION, is_meant)

    def streams(self, rank: int, name: str) -> list[int]:
        """Streams of the kernels whose name contains `name`, in the order of their first start."""
        spans = [span for span in self._spans(rank) if span["kind"] == KERNEL]
        named = [span for span in spans if name in self._data.timings[span["id"]]["name"]]
        return list(dict.fromkeys(int(span["stream"]) for span in named))

    def _intervals(self, rank: int, kind: int, is_meant: Any) -> list[Interval]:
        return [
            (int(span["start_ns"]) - self._start_ns, int(span["end_ns"]) - self._start_ns)
            for span in self._spans(rank)
            if span["kind"] == kind and is_meant(span)
        ]

    def _spans(self, rank: int) -> np.ndarray:
        spans = self._data.spans
        meant = (spans["rank"] == rank) & (spans["start_ns"] >= self._start_ns)
        meant &= spans["end_ns"] <= self._start_ns + self.ends_ns[rank][-1]
        found: np.ndarray = spans[meant]
        return found[np.lexsort([found["end_ns"], found["start_ns"]])]


def duration_ns(data: RunData, name: str) -> int:
    """How long the only kernel takes whose name contains `name`, alone on the device."""
    found = {one["duration_ns"] for one in data.timings if name in one["name"]}
    assert len(found) == 1, f"{name}: {found}"
    return int(found.pop())


def back_to_back(start_ns: int, durations_ns: list[int]) -> list[Interval]:
    """Intervals that follow each other from `start_ns` on."""
    intervals = []
    for one_ns in durations_ns:
        intervals.append((start_ns, start_ns + one_ns))
        start_ns += one_ns
    return intervals


def _ranges(data: RunData, rank: int, name: str) -> list[Interval]:
    """Begin and end of every range of this name. Ranges of one rank do not nest here."""
    found = []
    begun: tuple[str, int] | None = None
    for marked_rank, time_ns, kind, text in data.markers:
        if marked_rank != rank:
            continue
        if kind == MarkerKind.RANGE_PUSH:
            begun = (text, time_ns)
        elif kind == MarkerKind.RANGE_POP and begun is not None:
            if begun[0] == name:
                found.append((begun[1], time_ns))
            begun = None
    return found
