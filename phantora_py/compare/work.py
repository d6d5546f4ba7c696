"""What the devices of a run did in an iteration: kernels and communication, added up.

Means over GPUs and iterations after the first, so that runs of different lengths and sizes
compare. A run without iterations counts as one; a rank that stands for others, as all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from phantora_py.data import RunData
from phantora_py.report.gpus import run_gpus
from phantora_py.report.iterations import Iterations
from phantora_py.report.window import steady_window
from sim_server.log.history import COMMUNICATION_SPAN, HOST_WAIT_SPAN, KERNEL_SPAN

# Spans that have no timing, by their kind: the class and the name that they are listed under.
_COPIES = {2: ("copy", "copies of memory"), 3: ("fill", "fills of memory")}

KernelKey = tuple[str, str]
"""Class and name."""
CollectiveKey = tuple[str, int]
"""Kind and number of participants."""


@dataclass(frozen=True)
class KernelTotal:
    """Of one rank in one iteration, on average."""

    count: float = 0.0
    time_ns: float = 0.0


@dataclass(frozen=True)
class CollectiveTotal:
    """Likewise. Waiting is for the last participant, moving what follows."""

    count: float = 0.0
    size_bytes: float = 0.0
    moving_ns: float = 0.0
    waiting_ns: float = 0.0


@dataclass(frozen=True)
class Work:
    """What one rank did in one iteration, on average."""

    kernels: Mapping[KernelKey, KernelTotal] = field(default_factory=dict)
    collectives: Mapping[CollectiveKey, CollectiveTotal] = field(default_factory=dict)


Key = TypeVar("Key", bound=tuple[str, Any])
Total = TypeVar("Total")


@dataclass(frozen=True)
class Change(Generic[Key, Total]):
    """A row of a comparison: what it was in the first run and what it is in this one."""

    key: Key
    first: Total
    this: Total


def add_up(data: RunData, iterations: Iterations) -> Work:
    """The work of a run."""
    window = steady_window(data, iterations)
    gpus = sum(data.told.ranks_of(gpu.rank) for gpu in run_gpus(data))
    shares = gpus * max(window.iterations, 1)
    # Times are whole nanoseconds: what begins at a boundary belongs to what comes after it.
    spans, operations = data.spans, data.operations
    if window.iterations:
        spans = spans[window.holds(spans["start_ns"] + 1)]
        moves_ns = np.array([one["moves_ns"] for one in operations], np.int64)
        operations = [operations[at] for at in np.flatnonzero(window.holds(moves_ns + 1))]
    return Work(_kernels(data, spans, shares), _collectives(data, operations, shares))


def _kernels(
    data: RunData, spans: npt.NDArray[np.void], shares: int
) -> dict[KernelKey, KernelTotal]:
    totals: dict[KernelKey, KernelTotal] = {}

    def add(key: KernelKey, count: float, time_ns: float) -> None:
        before = totals.get(key, KernelTotal())
        totals[key] = KernelTotal(before.count + count / shares, before.time_ns + time_ns / shares)

    weights = data.told.weights(spans["rank"])
    lasted_ns = (spans["end_ns"] - spans["start_ns"]) * weights
    is_kernel = spans["kind"] == KERNEL_SPAN
    ids, names = spans["id"][is_kernel], data.timings
    counts = np.bincount(ids, weights=weights[is_kernel], minlength=len(names))
    times_ns = np.bincount(ids, weights=lasted_ns[is_kernel], minlength=len(names))
    for timing, count, time_ns in zip(names, counts, times_ns, strict=True):
        if count:
            add((timing["class"], timing["name"]), float(count), float(time_ns))
    for kind in np.unique(spans["kind"]):
        if kind not in (KERNEL_SPAN, COMMUNICATION_SPAN, HOST_WAIT_SPAN):
            of_kind = spans["kind"] == kind
            add(_COPIES[int(kind)], float(weights[of_kind].sum()), float(lasted_ns[of_kind].sum()))
    return totals


def _collectives(
    data: RunData, operations: list[dict[str, Any]], shares: int
) -> dict[CollectiveKey, CollectiveTotal]:
    sums: dict[CollectiveKey, npt.NDArray[np.float64]] = {}
    for one in operations:
        weights = data.told.member_weights(one["members"])
        count = weights.sum()
        moved_ns = weights @ (np.array(one["ends_ns"]) - one["moves_ns"])
        waited_ns = weights @ (one["moves_ns"] - np.array(one["arrivals_ns"]))
        row = np.array([count, count * one["bytes"], moved_ns, waited_ns], np.float64)
        key = (one["kind"], len(one["members"]))
        sums[key] = sums[key] + row if key in sums else row
    return {key: CollectiveTotal(*map(float, row / shares)) for key, row in sums.items()}


def kernel_changes(first: Work, this: Work) -> list[Change[KernelKey, KernelTotal]]:
    """By class and name, the greatest change of time first."""
    changes = _changes(first.kernels, this.kernels, KernelTotal())
    return sorted(changes, key=lambda one: -abs(one.this.time_ns - one.first.time_ns))


def class_changes(first: Work, this: Work) -> list[Change[KernelKey, KernelTotal]]:
    """Likewise by class alone."""
    changes = _changes(_by_class(first), _by_class(this), KernelTotal())
    return sorted(changes, key=lambda one: -abs(one.this.time_ns - one.first.time_ns))


def collective_changes(first: Work, this: Work) -> list[Change[CollectiveKey, CollectiveTotal]]:
    """By kind and participants, what grew most first."""
    changes = _changes(first.collectives, this.collectives, CollectiveTotal())
    return sorted(changes, key=lambda one: one.first.moving_ns - one.this.moving_ns)


def _by_class(work: Work) -> dict[KernelKey, KernelTotal]:
    totals: dict[KernelKey, KernelTotal] = {}
    for (kernel_class, _), total in work.kernels.items():
        before = totals.get((kernel_class, ""), KernelTotal())
        totals[kernel_class, ""] = KernelTotal(
            before.count + total.count, before.time_ns + total.time_ns
        )
    return totals


def _changes(
    first: Mapping[Key, Total], this: Mapping[Key, Total], nothing: Total
) -> list[Change[Key, Total]]:
    rows = [
        Change(key, first.get(key, nothing), this.get(key, nothing))
        for key in sorted({*first, *this})
    ]
    return [row for row in rows if row.first != row.this]
