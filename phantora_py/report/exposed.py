"""Where exposed communication comes from: by communicator, operation and Python line.

Exposed is the time in which a device moves bytes and does not compute, and that in which it only
waits for other ranks (breakdown.py). Where several operations do the same at once it counts to the
one that began to first, so that the rows add up to the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from phantora_py.data import RunData
from phantora_py.report.breakdown import Cover, gpu_covers
from phantora_py.report.communication import Layouts
from phantora_py.report.gpus import RunGpu, gpu_spans, moves_from, run_gpus
from phantora_py.report.iterations import Nanoseconds
from phantora_py.report.window import Window
from sim_server.log.history import COMMUNICATION_SPAN


@dataclass(frozen=True)
class ExposedRow:
    """Operations of one kind, from one Python line. Units: ns, of all GPUs together."""

    kind: str
    layout: str
    site: str
    """Of the operation's first rank."""
    operations: int
    total_ns: int
    """Also what is hidden."""
    waiting_ns: int
    """Before the last rank had arrived, where nothing was computed and no bytes moved."""
    moving_ns: int
    """Bytes moved, and nothing was computed."""

    @property
    def exposed_ns(self) -> int:
        """All of it."""
        return self.waiting_ns + self.moving_ns


def exposed_rows(data: RunData, window: Window) -> list[ExposedRow]:
    """What communicated within the window; most exposed first."""
    totals_ns = np.zeros((3, len(data.operations)), np.int64)
    for gpu in run_gpus(data):
        for part in window.parts():
            _add_gpu(data, gpu, part, totals_ns)
    layouts = Layouts(data)
    rows: dict[tuple[str, str, str], list[int]] = {}
    for number in np.flatnonzero(totals_ns[0]):
        one = data.operations[number]
        sums = rows.setdefault((one["kind"], layouts.of(one), one["site"]), [0, 0, 0, 0])
        for place, value in enumerate((1, *totals_ns[:, number].tolist())):
            sums[place] += value
    found = [ExposedRow(*key, *sums) for key, sums in rows.items()]
    return sorted(found, key=lambda row: (-row.exposed_ns, -row.total_ns, row.kind, row.site))


def _add_gpu(data: RunData, gpu: RunGpu, window: Window, totals_ns: npt.NDArray[np.int64]) -> None:
    """Add a GPU's share: total, exposed waiting and exposed moving, by operation."""
    spans, times_ns = exposed_spans(data, gpu, window)
    for total_ns, own_ns in zip(totals_ns, times_ns, strict=True):
        np.add.at(total_ns, spans["id"], own_ns)


def exposed_spans(
    data: RunData, gpu: RunGpu, window: Window
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.int64]]:
    """The communication of a GPU, and of each span what lies in the window, which has no gaps: the
    total, exposed waiting and exposed moving in ns. Shapes: [n], [3, n].
    """
    spans = gpu_spans(data, gpu)
    spans = spans[(spans["kind"] == COMMUNICATION_SPAN) & (spans["end_ns"] > spans["start_ns"])]
    covers = gpu_covers(data, gpu)
    starts_ns, ends_ns = spans["start_ns"], spans["end_ns"]
    moves_ns = moves_from(data, spans)
    times_ns = np.zeros((3, len(spans)), np.int64)
    times_ns[0] = np.subtract(*(np.clip(one, *window.borders_ns) for one in (ends_ns, starts_ns)))
    for place, begins_ns, finishes_ns, hidden in (
        (1, starts_ns, moves_ns, covers.used),
        (2, moves_ns, ends_ns, covers.compute),
    ):
        order = np.argsort(begins_ns, kind="stable")
        times_ns[place, order] = _shared_out(begins_ns[order], finishes_ns[order], window, hidden)
    return spans, times_ns


def _shared_out(
    begins_ns: Nanoseconds, finishes_ns: Nanoseconds, window: Window, hidden: Cover
) -> Nanoseconds:
    """What of each interval lies in the window, is not hidden, and is not that of one before.
    Intervals are sorted by their begin. Shape: as `begins_ns`.
    """
    if not len(begins_ns):
        return begins_ns
    begins_ns, finishes_ns = (
        np.clip(times_ns, *window.borders_ns) for times_ns in (begins_ns, finishes_ns)
    )
    taken_ns = np.concatenate([[window.begin_ns], np.maximum.accumulate(finishes_ns)[:-1]])
    begins_ns = np.minimum(np.maximum(begins_ns, taken_ns), finishes_ns)
    hidden_ns = hidden.covered_before(finishes_ns) - hidden.covered_before(begins_ns)
    own_ns: Nanoseconds = finishes_ns - begins_ns - hidden_ns
    return own_ns
