"""Where the iterations of a run begin and end, found without a word in the script.

An iteration ends on a rank when the host has passed the boundary (an explicit marker, the first
optimizer's step, the end of a repeated NVTX range) and the device has finished what was issued
before it: the host runs ahead of the device, so the host's time alone would tell how fast work is
queued. The iteration ends for the run when it has ended on the last rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from phantora_py.data import RunData
from sim_server.records import MarkerKind

Nanoseconds = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Iterations:
    """Boundaries of the iterations of a run."""

    detected_by: str
    """"marker", "optimizer", "nvtx" or "none"."""
    boundaries_ns: Nanoseconds
    """Shape [count + 1]: the first is the end of the warm-up iteration. Empty if none was found."""

    @property
    def durations_ns(self) -> Nanoseconds:
        """Shape [count]."""
        return np.diff(self.boundaries_ns)

    @property
    def count(self) -> int:
        """Iterations after the warm-up."""
        return len(self.durations_ns)

    @property
    def warmup_ns(self) -> int | None:
        """Virtual time from the start of the run to the end of its first iteration."""
        return int(self.boundaries_ns[0]) if len(self.boundaries_ns) else None


def find_iterations(data: RunData) -> Iterations:
    """The iterations of a run."""
    detected_by, host_times = find_steps(data)
    if not host_times:
        return Iterations(detected_by, np.empty(0, np.int64))
    return Iterations(detected_by, _run_boundaries(data, host_times))


def find_steps(data: RunData) -> tuple[str, dict[int, Nanoseconds]]:
    """How iterations are found, and when each rank's host ends them: by the first of explicit
    markers, optimizer steps, NVTX ranges.
    """
    for detected_by, host_times in (
        ("marker", _times_by_rank(data, MarkerKind.ITERATION, None)),
        ("optimizer", _optimizer_steps(data)),
        ("nvtx", _nvtx_ranges(data)),
    ):
        if host_times:
            return detected_by, host_times
    return "none", {}


def _times_by_rank(data: RunData, kind: MarkerKind, name: str | None) -> dict[int, Nanoseconds]:
    times: dict[int, list[int]] = {}
    for rank, time_ns, marker_kind, marker_name in data.markers:
        if marker_kind == kind and name in (None, marker_name):
            times.setdefault(rank, []).append(time_ns)
    return {rank: np.array(sorted(values), np.int64) for rank, values in times.items()}


def _optimizer_steps(data: RunData) -> dict[int, Nanoseconds]:
    """Steps of the optimizer that steps first: with several, each steps once in an iteration."""
    steps = [marker for marker in data.markers if marker[2] == MarkerKind.OPTIMIZER_STEP]
    if not steps:
        return {}
    first = min(steps, key=lambda marker: marker[1])
    return _times_by_rank(data, MarkerKind.OPTIMIZER_STEP, first[3])


def _nvtx_ranges(data: RunData) -> dict[int, Nanoseconds]:
    """Ends of the range name that comes first among those that are repeated on rank 0."""
    open_ranges: dict[int, list[str]] = {}
    ends: dict[tuple[int, str], list[int]] = {}
    for rank, time_ns, kind, name in data.markers:
        if kind == MarkerKind.RANGE_PUSH:
            open_ranges.setdefault(rank, []).append(name)
            ends.setdefault((rank, name), [])
        elif kind == MarkerKind.RANGE_POP and open_ranges.get(rank):
            ends[rank, open_ranges[rank].pop()].append(time_ns)
    repeated = next((key[1] for key, times in ends.items() if key[0] == 0 and len(times) > 1), None)
    return {
        rank: np.array(times, np.int64)
        for (rank, name), times in ends.items()
        if name == repeated and times
    }


def _run_boundaries(data: RunData, host_times: dict[int, Nanoseconds]) -> Nanoseconds:
    """Ranks that took fewer steps than others limit what is reported."""
    count = min(len(times) for times in host_times.values())
    per_rank = [_device_boundaries(data, rank, times[:count]) for rank, times in host_times.items()]
    latest: Nanoseconds = np.max(np.stack(per_rank), axis=0)
    return latest


def _device_boundaries(data: RunData, rank: int, host_times: Nanoseconds) -> Nanoseconds:
    spans = data.spans_of(rank)
    if not len(spans):
        return host_times
    latest_end = np.maximum.accumulate(spans["end_ns"])
    issued = np.searchsorted(spans["issue_ns"], host_times, side="right")
    done = np.where(issued > 0, latest_end[np.maximum(issued - 1, 0)], 0)
    return np.maximum(host_times, done)
