"""Where exposed communication comes from: by communicator, operation and Python line.

Exposed is the time in which a device communicates and does not compute (breakdown.py). Where
several operations are under way at once it counts to the one that started first, so that the rows
add up to the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from phantora_py.data import RunData
from phantora_py.report.breakdown import union
from phantora_py.report.communication import Layouts
from phantora_py.report.window import Window
from sim_server.history import COMMUNICATION_SPAN, HOST_WAIT_SPAN


@dataclass(frozen=True)
class ExposedRow:
    """Operations of one kind, from one Python line. Units: ns, of all ranks together."""

    kind: str
    layout: str
    site: str
    """Of the operation's first rank."""
    operations: int
    total_ns: int
    """Also what is hidden."""
    waiting_ns: int
    """Exposed, before the last rank had arrived."""
    moving_ns: int
    """Exposed, while bytes moved."""

    @property
    def exposed_ns(self) -> int:
        """All of it."""
        return self.waiting_ns + self.moving_ns


def exposed_rows(data: RunData, window: Window) -> list[ExposedRow]:
    """What communicated within the window; most exposed first."""
    totals_ns = np.zeros((3, len(data.operations)), np.int64)
    moves_ns = np.array([one["moves_ns"] for one in data.operations], np.int64)
    for rank in range(data.ranks):
        _add_rank(data.spans_of(rank), window, moves_ns, totals_ns)
    layouts = Layouts(data)
    rows: dict[tuple[str, str, str], list[int]] = {}
    for number in np.flatnonzero(totals_ns[0]):
        one = data.operations[number]
        sums = rows.setdefault((one["kind"], layouts.of(one), one["site"]), [0, 0, 0, 0])
        for place, value in enumerate((1, *totals_ns[:, number].tolist())):
            sums[place] += value
    found = [ExposedRow(*key, *sums) for key, sums in rows.items()]
    return sorted(found, key=lambda row: (-row.exposed_ns, -row.total_ns, row.kind, row.site))


def _add_rank(
    spans: npt.NDArray[np.void],
    window: Window,
    moves_ns: npt.NDArray[np.int64],
    totals_ns: npt.NDArray[np.int64],
) -> None:
    """Add a rank's share: total, exposed waiting and exposed moving, by operation."""
    spans = spans[(spans["kind"] != HOST_WAIT_SPAN) & (spans["end_ns"] > spans["start_ns"])]
    communicates = spans["kind"] == COMMUNICATION_SPAN
    computes = union(spans["start_ns"][~communicates], spans["end_ns"][~communicates])
    spans = spans[communicates]
    spans = spans[np.argsort(spans["start_ns"], kind="stable")]
    if not len(spans):
        return
    starts_ns = np.clip(spans["start_ns"], window.begin_ns, window.end_ns)
    ends_ns = np.clip(spans["end_ns"], window.begin_ns, window.end_ns)
    taken_ns = np.concatenate([[window.begin_ns], np.maximum.accumulate(ends_ns)[:-1]])
    begins_ns = np.minimum(np.maximum(starts_ns, taken_ns), ends_ns)
    splits_ns = np.clip(moves_ns[spans["id"]], begins_ns, ends_ns)
    hidden_ns = [computes.covered_before(times) for times in (begins_ns, splits_ns, ends_ns)]
    np.add.at(totals_ns[0], spans["id"], ends_ns - starts_ns)
    np.add.at(totals_ns[1], spans["id"], splits_ns - begins_ns - (hidden_ns[1] - hidden_ns[0]))
    np.add.at(totals_ns[2], spans["id"], ends_ns - splits_ns - (hidden_ns[2] - hidden_ns[1]))
