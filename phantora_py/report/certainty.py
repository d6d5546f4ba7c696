"""How sure the iteration time is: the intervals of kernels, copies, communication and host time,
added up.

The rule (docs/kernels.md): within a class errors are the same for all, so they add; between
classes they are independent, so their sums add as squares. What a device waits for others is their
work, and errs as work does. What published trainings differ by beyond all that is one more class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import numpy as np

from phantora_py.data import RunData
from phantora_py.report.breakdown import Breakdown
from phantora_py.report.gpus import run_gpus
from phantora_py.report.host_load import LAUNCHES_SOURCE, HostLoad
from phantora_py.report.window import Window
from sim_server.cluster import Cluster
from sim_server.kernels import Tier
from sim_server.log.history import COPY_SPAN, FILL_SPAN, KERNEL_SPAN

CONFIDENCE = 0.9
_FROM_CACHE = (Tier.MEASURED.value, Tier.INTERPOLATED.value)
_COPIES = "copy by the copy engines"
COPIES_CLASS = "copies"
"""What the copy engines do, fills too; kernels that copy are of a class of their own."""
WHOLE_TRAINING = "whole training"
HIDDEN_HOST = "hidden host time"
STARTED_APART = 0.05
"""Where groups of absent ranks end apart, their next operations start apart, and others are in
their way than in a folded run. Seen: up to 0.035 of the time of communication, in exchanges by
sends on a narrow fabric with ECMP (`tests/e2e/test_folded_runs.py`); this share is assumed.
"""
FITTED_NODES = 16
"""Up to so many nodes the interval of communication between nodes is as measured. Source: the
systems of docs/accuracy.md have no more, but for one of GB200 NVL72.
"""


DoubtfulClass = TypedDict(
    "DoubtfulClass",
    {
        "class": str,
        "share": float,
        "shorter": float,
        "longer": float,
        "sources": list[str],
    },
)
"""A class of work, in JSON: shares of the iteration, by which that may be shorter and longer."""


class IterationInterval(TypedDict):
    """Of the median iteration, from the models' errors (docs/kernels.md)."""

    confidence: float
    low_ns: int
    high_ns: int
    classes: list[DoubtfulClass]
    """Most doubt first."""


@dataclass(frozen=True)
class ClassDoubt:
    """One class of work. `time_ns`: its part of the mean iteration; how much shorter and longer
    that part may be.
    """

    kernel_class: str
    time_ns: float
    shorter_ns: float
    longer_ns: float
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Certainty:
    """The classes' doubts, most first, of a mean iteration of `whole_ns`."""

    classes: tuple[ClassDoubt, ...]
    whole_ns: int

    @property
    def low(self) -> float:
        """The 90 % interval as a multiple of the iteration time."""
        return 1 - _together([one.shorter_ns for one in self.classes]) / self.whole_ns

    @property
    def high(self) -> float:
        """Likewise."""
        return 1 + _together([one.longer_ns for one in self.classes]) / self.whole_ns

    def to_dict(self, median_ns: int) -> IterationInterval:
        """The `interval` of the JSON summary."""
        return {
            "confidence": CONFIDENCE,
            "low_ns": round(self.low * median_ns),
            "high_ns": round(self.high * median_ns),
            "classes": [
                {
                    "class": one.kernel_class,
                    "share": one.time_ns / self.whole_ns,
                    "shorter": one.shorter_ns / self.whole_ns,
                    "longer": one.longer_ns / self.whole_ns,
                    "sources": list(one.sources),
                }
                for one in self.classes
            ],
        }


def certainty(
    data: RunData, window: Window, breakdown: Breakdown | None, load: HostLoad
) -> Certainty | None:
    """None without iterations, of iterations that take no time, and for files that are older than
    intervals, also resimulated.
    """
    table = data.settings["gpu"].get("intervals", {})
    has_all = {_COPIES, "communication", "host"} <= table.keys()
    if breakdown is None or not has_all or any("interval" not in row for row in data.timings):
        return None
    shares = len(run_gpus(data)) * window.iterations
    sums = _kernels(data, window, shares)
    copied_ns = _lasted_ns(data, window, (COPY_SPAN, FILL_SPAN)) / shares
    if copied_ns:
        sums[COPIES_CLASS] = _doubt(COPIES_CLASS, copied_ns, table[_COPIES])
    moving_ns = breakdown.exposed_communication_ns
    computed_ns = sum(one.time_ns for one in sums.values())
    # Kernels side by side count for the time that they cover; waiting is other devices' work.
    covered_ns = breakdown.compute_ns + breakdown.idle_ns + breakdown.waiting_for_ranks_ns
    factor = covered_ns / computed_ns if computed_ns else 0.0
    classes = [
        replace(
            one,
            time_ns=factor * one.time_ns,
            shorter_ns=factor * one.shorter_ns,
            longer_ns=factor * one.longer_ns,
        )
        for one in sums.values()
    ]
    classes.append(_communication(data, moving_ns, table))
    whole_ns = breakdown.compute_ns + breakdown.idle_ns + breakdown.host_ns
    whole_ns += breakdown.exposed_communication_ns + breakdown.waiting_for_ranks_ns
    if not whole_ns:
        return None
    interval = _host(data, table)
    host = _doubt("host", breakdown.host_ns, interval)
    classes.append(host)
    found = sorted(
        [
            *(one for one in classes if one.time_ns > 0),
            *_hidden_host(load, interval, whole_ns, host.longer_ns),
            *_whole_training(whole_ns, table),
            *_folded(data, moving_ns),
        ],
        key=lambda one: (-max(one.shorter_ns, one.longer_ns), one.kernel_class),
    )
    return Certainty(tuple(found), whole_ns)


def class_of(kernel_class: str, tier: str) -> str:
    """The class of a doubt that a row of the table of kernels belongs to."""
    # Errors of measurements have nothing to do with those of models.
    return f"{kernel_class}, {tier}" if tier in _FROM_CACHE else kernel_class


def _whole_training(whole_ns: int, table: dict[str, Any]) -> Iterator[ClassDoubt]:
    """No work of its own, but a doubt about all of it; files of earlier versions have none."""
    if WHOLE_TRAINING in table:
        yield replace(_doubt(WHOLE_TRAINING, whole_ns, table[WHOLE_TRAINING]), time_ns=0.0)


def _folded(data: RunData, moving_ns: int) -> Iterator[ClassDoubt]:
    """No work of its own: how far operations of absent ranks ended from those that stand for them,
    which is how far another rank's may have, and what follows from that.
    """
    spread = (data.folding or {"images": {}})["images"].get("spread_share", 0.0)
    if spread:
        spread = max(spread, STARTED_APART)
        interval = [max(1 - spread, 0.0), 1 + spread, "the spread of absent groups, in this run"]
        yield replace(_doubt("folding", moving_ns, interval), time_ns=0.0)


def _communication(data: RunData, moving_ns: float, table: dict[str, Any]) -> ClassDoubt:
    """Of the kind of communication that the slowest part of an operation is. Beyond the nodes that
    it was seen on an error is taken to grow as it would have from one node to those: its logarithm
    in proportion to that of the number of nodes (assumed).
    """
    nodes, between = data.run["nodes"], "communication between nodes"
    if nodes == 1 or between not in table:
        return _doubt("communication", moving_ns, table["communication"])
    interval = table.get(_over_network(data), table[between])
    if nodes <= FITTED_NODES:
        return _doubt("communication", moving_ns, interval)
    low, high, source = interval
    power = math.log(nodes) / math.log(FITTED_NODES)
    source = f"{source}, measured up to {FITTED_NODES} nodes and widened for {nodes} (assumed)"
    name = f"communication beyond {FITTED_NODES} nodes"
    return _doubt(name, moving_ns, [low**power, high**power, source])


def _over_network(data: RunData) -> str:
    """Key of the interval of the cluster's fabric; not every file knows its cluster."""
    cluster = data.settings.get("cluster")
    return f"communication over {Cluster.from_dict(cluster).nic.network}" if cluster else ""


def _host(data: RunData, table: dict[str, Any]) -> list[Any]:
    """Of the processor that a run has counted for; else of any."""
    cpu = data.run.get("cpu")
    return [*cpu["interval"], cpu["source"]] if cpu else table["host"]


def _hidden_host(
    load: HostLoad, interval: list[Any], whole_ns: int, seen_ns: float
) -> Iterator[ClassDoubt]:
    """No work of its own: the iteration is never shorter than its host is busy, so host time that
    work hides makes it longer, if it errs by enough. By as much as host time that nothing hides
    does, `seen_ns`, the same error has been told of: the squares of both add up to that of all.
    """
    _, high, source = interval
    all_ns = load.most_ns(high) - whole_ns
    if all_ns > seen_ns:
        longer_ns = math.sqrt(all_ns**2 - seen_ns**2)
        sources = (LAUNCHES_SOURCE if load.is_blind else source,)
        yield ClassDoubt(HIDDEN_HOST, 0.0, 0.0, longer_ns, sources)


def _kernels(data: RunData, window: Window, shares: int) -> dict[str, ClassDoubt]:
    """By class, per rank and iteration."""
    spans = window.ended_in(data.spans)
    spans = spans[spans["kind"] == KERNEL_SPAN]
    lasted_ns = spans["end_ns"] - spans["start_ns"]
    totals_ns = np.bincount(spans["id"], weights=lasted_ns, minlength=len(data.timings)) / shares
    sums: dict[str, ClassDoubt] = {}
    for timing, total_ns in zip(data.timings, totals_ns.tolist(), strict=True):
        if not total_ns:
            continue
        interval = [*timing["interval"], timing["interval_source"]]
        one = _doubt(class_of(timing["class"], timing["tier"]), total_ns, interval)
        before = sums.get(one.kernel_class)
        sums[one.kernel_class] = one if before is None else _added(before, one)
    return sums


def _doubt(kernel_class: str, time_ns: float, interval: list[Any]) -> ClassDoubt:
    low, high, source = interval
    return ClassDoubt(kernel_class, time_ns, time_ns * (1 - low), time_ns * (high - 1), (source,))


def _added(one: ClassDoubt, other: ClassDoubt) -> ClassDoubt:
    """Of one class: errors add."""
    return ClassDoubt(
        one.kernel_class,
        one.time_ns + other.time_ns,
        one.shorter_ns + other.shorter_ns,
        one.longer_ns + other.longer_ns,
        tuple(dict.fromkeys([*one.sources, *other.sources])),
    )


def _lasted_ns(data: RunData, window: Window, kinds: tuple[int, ...]) -> int:
    spans = window.ended_in(data.spans)
    spans = spans[np.isin(spans["kind"], kinds)]
    return int((spans["end_ns"] - spans["start_ns"]).sum())


def _together(doubts: list[float]) -> float:
    """Of independent classes."""
    return float(np.sqrt(np.square(doubts).sum()))
