"""What devices compute: kernels, copies and fills by class, kernel and tier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from phantora_py.data import RunData
from phantora_py.report.certainty import COPIES_CLASS, DoubtfulClass, class_of
from phantora_py.report.window import Window, whole_run
from sim_server.kernels import Tier
from sim_server.log.history import COMMUNICATION_SPAN, COPY_SPAN, FILL_SPAN, KERNEL_SPAN
from sim_server.records import CopyKind

# From the least to the most trustworthy of those that are not measured.
_DOUBTED = (Tier.ASSUMED, Tier.MODELLED, Tier.INTERPOLATED)


@dataclass(frozen=True)
class KernelRow:
    """One kernel in all its shapes, or one kind of copy. Units: ns, of all ranks together."""

    kernel_class: str
    name: str
    tier: str
    launches: int
    total_ns: int


@dataclass(frozen=True)
class Doubt:
    """What makes the iteration time doubtful. `share`: of the busy time of all devices;
    `shorter`, `longer`: of its class, as a share of the iteration, if that is known.
    """

    tier: str
    kernel_class: str
    name: str
    share: float
    shorter: float | None = None
    longer: float | None = None


def kernel_rows(data: RunData, window: Window) -> list[KernelRow]:
    """What ended in the window, longest first."""
    spans = window.ended_in(data.spans)
    found: dict[tuple[str, str, str], tuple[int, int]] = {}
    for key, launches, total_ns in (
        *_by_timing(data, spans[spans["kind"] == KERNEL_SPAN]),
        *_by_copy_kind(spans[spans["kind"] == COPY_SPAN]),
        *_together(COPIES_CLASS, "fill of device memory", spans[spans["kind"] == FILL_SPAN]),
    ):
        before = found.get(key, (0, 0))
        found[key] = (before[0] + launches, before[1] + total_ns)
    rows = [KernelRow(*key, *totals) for key, totals in found.items()]
    return sorted(rows, key=lambda row: (-row.total_ns, row.kernel_class, row.name))


def doubts(data: RunData, most: int, classes: Sequence[DoubtfulClass] = ()) -> list[Doubt]:
    """Over the whole run. `classes`: those of the iteration's interval, whose order is kept, with
    the `most` of each that take most time. Without them of each tier, assumed ones first.
    """
    whole = whole_run(data)
    spans = data.spans[data.spans["kind"] == COMMUNICATION_SPAN]
    communication = [
        KernelRow(*key, *totals)
        for key, *totals in _together("communication", "collectives, sends and receives", spans)
    ]
    rows = sorted(kernel_rows(data, whole) + communication, key=lambda row: -row.total_ns)
    whole_ns = sum(row.total_ns for row in rows)
    if classes:
        return [
            Doubt(
                *(row.tier, row.kernel_class, row.name, row.total_ns / whole_ns),
                *(one["shorter"], one["longer"]),
            )
            for one in classes
            for row in [row for row in rows if _is_of(row, one) and row.total_ns][:most]
        ]
    return [
        Doubt(row.tier, row.kernel_class, row.name, row.total_ns / whole_ns)
        for tier in _DOUBTED
        for row in [row for row in rows if row.tier == tier.value and row.total_ns][:most]
    ]


def _is_of(row: KernelRow, one: DoubtfulClass) -> bool:
    return bool(class_of(row.kernel_class, row.tier) == one["class"])


_Total = tuple[tuple[str, str, str], int, int]
"""Class, name and tier; launches; ns."""


def _by_timing(data: RunData, spans: np.ndarray) -> Iterator[_Total]:
    counts = np.bincount(spans["id"], minlength=len(data.timings))
    lasted_ns = spans["end_ns"] - spans["start_ns"]
    # Sums of float64 are exact up to 2^53 ns: a hundred days of GPU time.
    totals_ns = np.bincount(spans["id"], weights=lasted_ns, minlength=len(data.timings))
    for timing, count, total_ns in zip(data.timings, counts, totals_ns, strict=True):
        if count:
            yield (timing["class"], timing["name"], timing["tier"]), int(count), int(total_ns)


def _by_copy_kind(spans: np.ndarray) -> Iterator[_Total]:
    for kind in CopyKind:
        name = f"copy, {kind.name.lower().replace('_', ' ')}"
        yield from _together(COPIES_CLASS, name, spans[spans["id"] == kind])


def _together(kernel_class: str, name: str, spans: np.ndarray) -> Iterator[_Total]:
    """Everything that is not a kernel is modelled."""
    if len(spans):
        total_ns = int((spans["end_ns"] - spans["start_ns"]).sum())
        yield (kernel_class, name, Tier.MODELLED.value), len(spans), total_ns
