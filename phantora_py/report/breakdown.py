"""Where the time of an iteration goes on the GPUs.

Within an iteration, at each instant a device computes (kernels, copies, fills), or only moves bytes
between ranks (exposed communication), or only waits for the other ranks of an operation, or does
nothing: because the host had not issued the next work yet (host), or for another reason (idle). The
five add up to the iteration; `communication` counts overlapped time too. An operation waits from
its arrival on this rank to that of its last rank, and moves bytes from then on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np
import numpy.typing as npt

from phantora_py.data import RunData
from phantora_py.report.gpus import RunGpu, gpu_spans, moves_from, run_gpus
from phantora_py.report.iterations import Iterations, Nanoseconds
from sim_server.log.history import COMMUNICATION_SPAN, HOST_WAIT_SPAN


@dataclass(frozen=True)
class Breakdown:
    """Means over GPUs and iterations. Units: ns."""

    compute_ns: int
    communication_ns: int
    exposed_communication_ns: int
    waiting_for_ranks_ns: int
    host_ns: int
    idle_ns: int
    communication_by_iteration_ns: tuple[int, ...] = field(default=(), compare=False)
    """Of each iteration after the first, also of such as are set apart."""


@dataclass(frozen=True)
class Cover:
    """Disjoint intervals in order. Shapes: [n], [n]."""

    starts_ns: Nanoseconds
    ends_ns: Nanoseconds

    def covered_before(self, times_ns: Nanoseconds) -> Nanoseconds:
        """How much of the time before each instant is covered. Shape: as `times_ns`."""
        total_ns = np.concatenate([[0], np.cumsum(self.ends_ns - self.starts_ns)])
        begun = np.searchsorted(self.starts_ns, times_ns, side="right")
        if not len(self.starts_ns):
            return np.zeros_like(times_ns)
        last = np.maximum(begun - 1, 0)
        beyond = np.maximum(self.ends_ns[last] - times_ns, 0)
        covered: Nanoseconds = np.where(begun > 0, total_ns[begun] - beyond, 0)
        return covered

    def covers(self, times_ns: Nanoseconds) -> npt.NDArray[np.bool_]:
        """Whether each instant is covered; ends are not. Shape: as `times_ns`."""
        if not len(self.starts_ns):
            return np.zeros(len(times_ns), np.bool_)
        last = np.searchsorted(self.starts_ns, times_ns, side="right") - 1
        found: npt.NDArray[np.bool_] = (last >= 0) & (times_ns < self.ends_ns[last])
        return found

    def between(self, boundaries_ns: Nanoseconds) -> Nanoseconds:
        """Covered time between consecutive boundaries. Shape: [len(boundaries_ns) - 1]."""
        return np.diff(self.covered_before(boundaries_ns))


def union(starts_ns: Nanoseconds, ends_ns: Nanoseconds) -> Cover:
    """The instants that any of the intervals covers."""
    order = np.argsort(starts_ns, kind="stable")
    starts_ns, ends_ns = starts_ns[order], ends_ns[order]
    if not len(starts_ns):
        return Cover(starts_ns, ends_ns)
    reach_ns = np.maximum.accumulate(ends_ns)
    begins = np.concatenate([[True], starts_ns[1:] > reach_ns[:-1]])
    last = np.concatenate([np.flatnonzero(begins)[1:] - 1, [len(starts_ns) - 1]])
    return Cover(starts_ns[begins], reach_ns[last])


_PARTS = [part.name for part in fields(Breakdown) if part.compare]


def break_down(data: RunData, iterations: Iterations) -> Breakdown | None:
    """Breakdown of the mean iteration; None when no iteration was found."""
    if not iterations.count:
        return None
    boundaries_ns, alike = iterations.boundaries_ns, iterations.alike
    gpus = run_gpus(data)
    whole = np.zeros((len(_PARTS), iterations.count))
    weights = np.array([data.told.ranks_of(gpu.rank) for gpu in gpus])
    for gpu, weight in zip(gpus, weights / weights.sum(), strict=True):
        whole += weight * gpu_times(data, gpu, boundaries_ns)
    means = whole[:, alike].mean(axis=1).round().astype(np.int64).tolist()
    communication_ns = whole[_PARTS.index("communication_ns")].round().astype(np.int64).tolist()
    return replace(Breakdown(*means), communication_by_iteration_ns=tuple(communication_ns))


@dataclass(frozen=True)
class GpuCovers:
    """When a GPU computes, moves bytes, waits for other ranks, and for its host."""

    compute: Cover
    communication: Cover
    """Bytes move."""
    used: Cover
    """Either of the two."""
    busy: Cover
    """Either of the two, or operations wait for other ranks."""
    host: Cover


def gpu_covers(data: RunData, gpu: RunGpu) -> GpuCovers:
    """Of the whole run."""
    spans = gpu_spans(data, gpu)
    # `compress` copies whole rows, an index would go field by field.
    on_device = (spans["kind"] != HOST_WAIT_SPAN) & (spans["end_ns"] > spans["start_ns"])
    spans = spans.compress(on_device)
    communicates = spans["kind"] == COMMUNICATION_SPAN
    busy = _cover(spans)
    moving = spans.copy()
    moving["start_ns"][communicates] = moves_from(data, spans.compress(communicates))
    return GpuCovers(
        _cover(spans.compress(~communicates)),
        _cover(moving.compress(communicates)),
        _cover(moving),
        busy,
        _host_gaps(spans, busy),
    )


def gpu_times(data: RunData, gpu: RunGpu, boundaries_ns: Nanoseconds) -> npt.NDArray[np.int64]:
    """Shape: [6, iterations], rows as the fields of Breakdown."""
    covers = gpu_covers(data, gpu)
    compute, communication, used, busy, host = (
        cover.between(boundaries_ns)
        for cover in (covers.compute, covers.communication, covers.used, covers.busy, covers.host)
    )
    idle = np.diff(boundaries_ns) - busy - host
    return np.stack([compute, communication, used - compute, busy - used, host, idle])


def _cover(spans: npt.NDArray[np.void]) -> Cover:
    return union(spans["start_ns"], spans["end_ns"])


def _host_gaps(spans: npt.NDArray[np.void], busy: Cover) -> Cover:
    """Gaps of the device that end with work that began the instant it was issued."""
    on_issue = np.unique(spans["start_ns"][spans["start_ns"] == spans["issue_ns"]])
    by_host = np.isin(busy.starts_ns, on_issue)
    gap_starts_ns = np.concatenate([[0], busy.ends_ns[:-1]])[: len(busy.starts_ns)]
    return Cover(gap_starts_ns[by_host], busy.starts_ns[by_host])
