"""What repeats in the launches of a rank: for programs that leave no mark of their iterations."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from phantora_py.data import RunData
from sim_server.log.history import COMMUNICATION_SPAN, HOST_WAIT_SPAN, KERNEL_SPAN
from sim_server.log.iterations import LEAST_REPEATS

Integers = npt.NDArray[np.int64]

_MOST_LAGS = 24
"""So many periods are tried, the likeliest first (assumed to be enough)."""
_NEARLY = 0.95
"""A shorter period wins if it covers nearly as much."""
_LEAST_SHARE = 0.25
"""What repeats for less of the time may be some part of what the program does (assumed)."""
_SIZES = re.compile(r"\b\d+(x\d+)+\b")


@dataclass(frozen=True)
class Repetition:
    """A stretch of a sequence that repeats after `length`."""

    begin: int
    length: int
    count: int


def repeated_launches(data: RunData) -> dict[int, Integers]:
    """When the host of each rank had issued the last launch of each repetition; ranks whose
    launches repeat otherwise than the first one's are not there.
    """
    found: dict[int, Integers] = {}
    for rank in data.told.ranks:
        spans = data.spans_of(rank)
        spans = spans.compress(spans["kind"] != HOST_WAIT_SPAN)
        lasted_ns = spans["end_ns"].astype(np.int64) - spans["start_ns"]
        # Copies of weights to the device, one after the other, are no iterations.
        lasted_ns[~np.isin(spans["kind"], (KERNEL_SPAN, COMMUNICATION_SPAN))] = 0
        repetition = find_repetition(_names(data, spans), lasted_ns)
        if _share(repetition, lasted_ns) < _LEAST_SHARE:
            # Products of a text that grows have other sizes each time.
            any_size = find_repetition(_names(data, spans, with_sizes=False), lasted_ns)
            repetition = max(repetition, any_size, key=lambda one: _share(one, lasted_ns))
        if repetition is not None:
            ends_ns = _ends(spans["issue_ns"].astype(np.int64), repetition)
            if not found or len(next(iter(found.values()))) == len(ends_ns):
                found[rank] = ends_ns
    return found


def find_repetition(sequence: Integers, lasted_ns: Integers) -> Repetition | None:
    """The one that covers most of the time: layers repeat too, but never for as long as iterations
    do. None if nothing does so three times in a row. `lasted_ns`: of each of the sequence.
    """
    # Where nothing takes time, each launch counts as much.
    until_ns = np.concatenate([[0], np.cumsum(lasted_ns + 1)])
    best: tuple[Repetition, int] | None = None
    for lag in _likely_lags(sequence):
        begin, run = _longest_run(sequence[lag:] == sequence[:-lag], lag, until_ns)
        one = Repetition(begin, lag, (run + lag) // lag)
        covered_ns = int(until_ns[begin + one.count * lag] - until_ns[begin])
        if one.count >= LEAST_REPEATS and (best is None or _is_better(one, covered_ns, *best)):
            best = one, covered_ns
    return best[0] if best else None


def _share(one: Repetition | None, lasted_ns: Integers) -> float:
    """Of the time of all launches, that of what repeats."""
    if one is None:
        return 0.0
    repeats_ns = lasted_ns[one.begin : one.begin + one.count * one.length].sum()
    return float(repeats_ns / max(1, lasted_ns.sum()))


def _is_better(one: Repetition, covered_ns: int, other: Repetition, needed_ns: int) -> bool:
    if one.length > other.length:
        return covered_ns > needed_ns
    return covered_ns >= _NEARLY * needed_ns


def _likely_lags(sequence: Integers) -> list[int]:
    """Distances between neighbours of equal value, and from one long pause of a value to the next,
    those of rare values first; shorter first.
    """
    values, counts = np.unique(sequence, return_counts=True)
    lags: dict[int, None] = {}
    for value in values[np.argsort(counts, kind="stable")]:
        places = np.flatnonzero(sequence == value)
        if len(places) < LEAST_REPEATS:
            continue
        gaps = np.diff(places)
        distances, often = np.unique(gaps, return_counts=True)
        lags[int(distances[np.argmax(often)])] = None
        # An iteration that has each of its launches several times has them in groups.
        repeated = distances[often >= LEAST_REPEATS - 1]
        if len(repeated) > 1:
            apart = np.diff(places[:-1][gaps == repeated[-1]])
            distances, often = np.unique(apart, return_counts=True)
            lags[int(distances[np.argmax(often)])] = None
        if len(places) % 2 == 0:  # twice in each
            lags[int(places[2] - places[0])] = None
        if len(lags) >= _MOST_LAGS:
            break
    return sorted(lags)


def _longest_run(is_equal: npt.NDArray[np.bool_], lag: int, until_ns: Integers) -> tuple[int, int]:
    """Where the run of trues begins that with the `lag` after it lasts longest, and its length."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_equal, [False]]).astype(np.int8)))
    if not len(edges):
        return 0, 0
    begins, lengths = edges[::2], np.diff(edges)[::2]
    longest = int(np.argmax(until_ns[begins + lengths + lag] - until_ns[begins]))
    return int(begins[longest]), int(lengths[longest])


def _names(data: RunData, spans: npt.NDArray[np.void], with_sizes: bool = True) -> Integers:
    """A number for what each launch does. Kernels are named without their sizes, calls of libraries
    with them: these can be left out.
    """
    numbers: dict[str, int] = {}
    names = [timing["name"] for timing in data.timings]
    if not with_sizes:
        names = [_SIZES.sub("", name) for name in names]
    timings = [numbers.setdefault(name, len(numbers)) for name in names]
    operations = [numbers.setdefault(one["kind"], len(numbers)) for one in data.operations]
    found: Integers = -(spans["kind"].astype(np.int64) * 8 + spans["id"] % 8)
    for kind, table in ((KERNEL_SPAN, timings), (COMMUNICATION_SPAN, operations)):
        of_kind = spans["kind"] == kind
        found[of_kind] = np.array(table, np.int64)[spans["id"][of_kind]]
    return found


def _ends(issues_ns: Integers, repetition: Repetition) -> Integers:
    """Each ends where its host pauses longest: after it has waited for the device, say."""
    last = repetition.begin + repetition.length * repetition.count
    pauses_ns = np.diff(issues_ns[repetition.begin : last], append=issues_ns[last - 1])
    by_place = pauses_ns.reshape(repetition.count, repetition.length)[:-1].sum(axis=0)
    first = repetition.begin + int(np.argmax(by_place))
    ends_ns: Integers = issues_ns[first : last : repetition.length]
    return ends_ns
