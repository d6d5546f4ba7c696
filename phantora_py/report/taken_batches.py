"""When a training takes the batches that its ranks have told of.

A loader may run ahead: loops that want to know whether a batch is the last one of its epoch fetch
the next one first (accelerate, Lightning), and others fetch all micro-batches of a step at once. So
a loader's batch belongs to the backward pass that it is for, and not to the time at which it came.
"""

from __future__ import annotations

from collections import defaultdict

from phantora_py.data import RunData
from phantora_py.data.rows import Batch
from sim_server.records import MarkerKind

_MOST_AHEAD = 2
"""So many batches may have no pass any more, where a run ends in the middle (assumed)."""
_LEAST_PASSES = 3
"""Fewer do not tell a batch for each pass from two (assumed)."""


def taken_batches(data: RunData) -> list[Batch]:
    """Those of a loader with a batch for each backward pass at the time of that pass."""
    loaded: dict[tuple[int, str], list[Batch]] = defaultdict(list)
    others = []
    for one in data.batches:
        if one.source == "loader":
            loaded[one.rank, one.key].append(one)
        else:
            others.append(one)
    passes: dict[int, list[int]] = defaultdict(list)
    for rank, time_ns, kind, _ in data.markers:
        if kind == MarkerKind.BACKWARD:
            passes[rank].append(time_ns)
    for (rank, _), batches in loaded.items():
        others += _in_passes(batches, passes[rank])
    return others


def _in_passes(batches: list[Batch], ends_ns: list[int]) -> list[Batch]:
    """As they are, unless each pass has one that came before its end. Those that came for a pass
    that there never was are no part of the training.
    """
    waiting = len(batches) - len(ends_ns)
    if len(ends_ns) < _LEAST_PASSES or not 0 <= waiting <= _MOST_AHEAD:
        return batches
    pairs = list(zip(batches, ends_ns, strict=False))
    if any(batch.time_ns > end_ns for batch, end_ns in pairs):
        return batches
    begins_ns = [0, *ends_ns]
    return [
        batch._replace(time_ns=max(batch.time_ns, begin_ns, end_ns - 1))
        for (batch, end_ns), begin_ns in zip(pairs, begins_ns, strict=False)
    ]
