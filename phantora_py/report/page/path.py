"""The page's tables of the critical path: what it is made of."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from phantora_py.data import RunData
from phantora_py.report.communication import Layouts
from phantora_py.report.critical_path import Cause, Step, times_by_cause
from sim_server.deadlock import ranges_text
from sim_server.log.history import FILL_SPAN

_MEANINGS = {
    Cause.KERNELS: "kernels run that what follows waited for",
    Cause.COPIES: "likewise copies and fills",
    Cause.COMMUNICATION: "bytes move, all ranks have come",
    Cause.HOST: "the program between two calls, with nothing on the device that it waited for",
    Cause.WAITING: "for a copy engine, a new communicator, or other ranks outside the GPU",
}
_CLASSES = {
    Cause.KERNELS: "compute",
    Cause.COPIES: "copies",
    Cause.COMMUNICATION: "communication",
    Cause.HOST: "host",
    Cause.WAITING: "waiting",
}
# More would not be read (assumed).
_ROWS = 100


def path_tables(data: RunData, steps: Sequence[Step]) -> dict[str, Any]:
    """Causes with their shares, and the work that takes most of the path."""
    whole_ns = sum(step.length_ns for step in steps) or 1
    times_ns = times_by_cause(steps)
    rows: dict[tuple[Cause, str, str, str], list[int]] = {}
    layouts = Layouts(data)
    for step in steps:
        sums = rows.setdefault((step.cause, *_words(data, layouts, step)), [0, 0])
        sums[0] += 1
        sums[1] += step.length_ns
    ordered = sorted(rows.items(), key=lambda row: (-row[1][1], row[0][1:]))
    return {
        "path_causes": [
            {
                "name": cause.value,
                "class": _CLASSES[cause],
                "time_ns": times_ns[cause.value],
                "share": times_ns[cause.value] / whole_ns,
                "meaning": meaning,
            }
            for cause, meaning in _MEANINGS.items()
        ],
        "path_rows": [
            {
                **{"class": _CLASSES[cause], "what": what, "name": name, "site": site},
                **{"count": count, "time_ns": time_ns, "share": time_ns / whole_ns},
            }
            for (cause, what, name, site), (count, time_ns) in ordered[:_ROWS]
        ],
        "path_left_out": max(0, len(ordered) - _ROWS),
        "path_ranks": ranges_text(sorted({step.rank for step in steps})),
        "path_changes": sum(one.rank != other.rank for one, other in itertools.pairwise(steps)),
    }


def _words(data: RunData, layouts: Layouts, step: Step) -> tuple[str, str, str]:
    """Class or operation, kernel or communicator, Python line."""
    if step.cause in (Cause.HOST, Cause.WAITING):
        return step.cause.value, "", ""
    span = data.spans_of(step.rank)[step.span]
    if step.cause is Cause.KERNELS:
        timing = data.timings[span["id"]]
        return timing["class"], timing["name"], ""
    if step.cause is Cause.COPIES:
        return "fill" if span["kind"] == FILL_SPAN else "copy", "", ""
    operation = data.operations[span["id"]]
    return operation["kind"], layouts.of(operation), operation["site"]
