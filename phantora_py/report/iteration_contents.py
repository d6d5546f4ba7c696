"""What an iteration holds, in the user's words, and how long the program itself finds it to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from phantora_py.data import RunData
from phantora_py.report.iterations import Iterations, Nanoseconds, find_steps
from sim_server.log.iterations import (
    LEAST_REPEATS,
    MOSTLY,
    RankMarks,
    Rule,
    alike_share,
    are_alike,
)

# A difference from the program's own clock that is told as a warning.
DISAGREEMENT = 0.05


@dataclass(frozen=True)
class Contents:
    """Of an iteration of the first rank whose marks say what one is; the middle one of each."""

    optimizer_steps: dict[str, int]
    """By optimizer: several parts of one step, as DeepSpeed makes them, count once."""
    micro_batches: int
    """Backward passes that one line asks for, if it does so several times for a step of an
    optimizer, or there is none, and those of a line for the last micro-batch alone; 0 otherwise."""
    micro_batches_range: tuple[int, int]
    """The fewest and most of an iteration."""

    @property
    def text(self) -> str:
        """As "2 optimizer steps, 16 micro-batches"; empty if nothing is known."""
        parts = []
        if steps := sum(self.optimizer_steps.values()):
            parts.append(_counted(steps, "optimizer step", "optimizer steps"))
        fewest, most = self.micro_batches_range
        if fewest < most:
            parts.append(f"{fewest} to {most} micro-batches")
        elif self.micro_batches > 1 or (self.micro_batches and not steps):
            parts.append(_counted(self.micro_batches, "micro-batch", "micro-batches"))
        return ", ".join(parts)


@dataclass(frozen=True)
class ScriptClock:
    """What the program's own readings of a clock make of an iteration."""

    site: str
    """The line that reads it; the last one, if several share an iteration."""
    reads: int
    """Of this line."""
    reads_per_iteration: int
    """Likewise; 0 where it reads once in several."""
    iteration_ns: int
    difference: float
    """Of what the report has of the same iterations from it, as a share of it."""


class IterationRule(TypedDict):
    """The mark that ends an iteration."""

    by: str
    """As `detected_by`."""
    name: str
    every: int
    """How many such marks are one iteration."""
    phase: int
    """Which of them the first iteration ends with, from 0."""


class IterationApart(TypedDict):
    """An iteration that does other work than most."""

    iteration: int
    """Counted from the run's first, which is 0."""
    duration_ns: int
    communication_ns: int
    """While bytes move between ranks, as in `breakdown_ns`."""


class ProgramClock(TypedDict):
    """What the program's own readings of a clock make of an iteration."""

    site: str
    """The Python line that reads it."""
    reads: int
    reads_per_iteration: int
    """0: once in several."""
    iteration_ns: int
    difference: float
    """Of what the report has of the same iterations from it, as a share of it: the median where
    several lines read a clock, else the mean."""


class IterationContents(TypedDict):
    """What an iteration is."""

    holds: str
    """In words, as "1 optimizer step, 16 micro-batches"."""
    optimizer_steps: dict[str, int]
    """By optimizer."""
    micro_batches: int
    """Of the middle one."""
    micro_batches_range: tuple[int, int]
    """The fewest and most of an iteration in the figures."""
    rule: IterationRule | None
    """Null with `launches` and `none`."""
    apart: list[IterationApart]
    """Iterations that are not in the figures."""
    script_clock: ProgramClock | None
    """Null where none is read regularly."""
    held_share: float
    """So much of the devices' time in the whole run is work of the iterations in the figures."""
    steps_outside: dict[str, int]
    """By optimizer, its steps before and after these iterations where that is no first one."""
    timed_outside: dict[str, int]
    """Nanoseconds from read to read of a clock, by the line that reads it around equal work before
    or after these iterations, and not in them; the median."""


def describe(
    data: RunData, iterations: Iterations, communication_ns: Sequence[int]
) -> IterationContents:
    """The members of `iterations` in the summary that say what an iteration is.
    `communication_ns`: of each after the first.
    """
    steps = find_steps(data)
    rank = min(steps.host_times, default=None)
    marks = steps.marks.get(rank) if rank is not None else None
    described: IterationContents = {
        "holds": "",
        "optimizer_steps": {},
        "micro_batches": 0,
        "micro_batches_range": (0, 0),
        "rule": _rule(iterations.rule),
        "apart": _apart(iterations, communication_ns),
        "script_clock": None,
        "held_share": iterations.held_share,
        "steps_outside": {},
        "timed_outside": {},
    }
    if rank is None or marks is None or not iterations.count:
        return described
    host_ns = steps.host_times[rank][: iterations.count + 1]
    contents = _contents(marks, host_ns, iterations.alike)
    described["holds"] = contents.text
    described["optimizer_steps"] = contents.optimizer_steps
    described["micro_batches"] = contents.micro_batches
    described["micro_batches_range"] = contents.micro_batches_range
    described["script_clock"] = _clock(script_clock(marks, host_ns, iterations))
    described["steps_outside"] = _steps_outside(
        marks, host_ns, contents.optimizer_steps, is_cut=data.is_cut
    )
    described["timed_outside"] = _timed_outside(marks, host_ns, is_cut=data.is_cut)
    return described


def _steps_outside(
    marks: RankMarks, host_ns: Nanoseconds, usual: Mapping[str, int], *, is_cut: bool
) -> dict[str, int]:
    """Of optimizers that a program has stepped with before the optimizer of these iterations, or
    goes on with after it. The first iteration, and one that is not over, have as many as others;
    where the run was cut off, the host may be far ahead of the last one.
    """
    found = {}
    for by, name in marks.series:
        if by != "optimizer":
            continue
        times_ns = _times_ns(marks, (by, name))
        before, within = np.searchsorted(times_ns, host_ns[[0, -1]], side="right").tolist()
        each = usual.get(name, 0)
        after = 0 if is_cut else len(times_ns) - within
        more = (part - each for part in (before, after))
        outside = sum(part for part in more if part >= max(LEAST_REPEATS, each))
        if outside:
            found[name] = outside
    return found


def _timed_outside(marks: RankMarks, host_ns: Nanoseconds, *, is_cut: bool) -> dict[str, int]:
    """What a program times by itself, again and again, in another phase than these iterations."""
    found = {}
    for key, series in marks.series.items():
        if key[0] != "clock":
            continue
        times_ns = _times_ns(marks, key)
        before, within = np.searchsorted(times_ns, host_ns[[0, -1]], side="right").tolist()
        if within > before:
            continue
        parts = [slice(before)] if is_cut else [slice(before), slice(within, None)]
        for part in parts:
            work = marks.work(series.places[part])
            if len(work) >= LEAST_REPEATS and any(work) and alike_share(work) >= MOSTLY:
                found[key[1]] = int(np.median(np.diff(times_ns[part])))
    return found


def _rule(rule: Rule | None) -> IterationRule | None:
    if rule is None:
        return None
    return {"by": rule.by, "name": rule.name, "every": rule.every, "phase": rule.phase}


def _apart(iterations: Iterations, communication_ns: Sequence[int]) -> list[IterationApart]:
    durations_ns = iterations.durations_ns
    return [
        {
            "iteration": number + 1,
            "duration_ns": int(durations_ns[number]),
            "communication_ns": communication_ns[number],
        }
        for number in np.flatnonzero(~iterations.alike).tolist()
    ]


def _clock(clock: ScriptClock | None) -> ProgramClock | None:
    if clock is None:
        return None
    return {
        "site": clock.site,
        "reads": clock.reads,
        "reads_per_iteration": clock.reads_per_iteration,
        "iteration_ns": clock.iteration_ns,
        "difference": clock.difference,
    }


def _contents(marks: RankMarks, host_ns: Nanoseconds, alike: npt.NDArray[np.bool_]) -> Contents:
    counts = {key: _per_iteration(marks, key, host_ns)[alike] for key in marks.series}
    middle = {key: int(np.median(count)) for key, count in counts.items()}
    passes = [key for key in middle if key[0] == "backward" and _accumulates(marks, key)]
    steps = {name: count for (by, name), count in middle.items() if by == "optimizer" and count}
    most = max(passes, key=lambda key: middle[key], default=None)
    if most is None:
        return Contents(steps, 0, (0, 0))
    lines = [most, *(key for key in middle if _is_last_of(marks, most, key))]
    found = np.sum([counts[key] for key in lines], axis=0)
    return Contents(steps, int(np.median(found)), (int(found.min()), int(found.max())))


def _accumulates(marks: RankMarks, key: tuple[str, str]) -> bool:
    """Whether a line has several backward passes for one optimizer's step; also without any."""
    passes = _passes_between_steps(marks, key)
    if passes is None:
        return True
    return bool(len(passes[passes > 0]) and np.median(passes[passes > 0]) > 1)


def _is_last_of(marks: RankMarks, usual: tuple[str, str], key: tuple[str, str]) -> bool:
    """Whether a line has one backward pass wherever the usual one has several before the same step:
    that of the last micro-batch, whose gradients are exchanged.
    """
    if key[0] != "backward" or key == usual:
        return False
    passes, others = _passes_between_steps(marks, usual), _passes_between_steps(marks, key)
    if passes is None or others is None:
        return False
    return bool((others == (passes > 0)).all())


def _passes_between_steps(marks: RankMarks, key: tuple[str, str]) -> npt.NDArray[np.int64] | None:
    """How many marks of a series there are between one optimizer's step and the next; None without
    steps.
    """
    ends_ns = [_times_ns(marks, other) for other in marks.series if other[0] == "optimizer"]
    if not ends_ns:
        return None
    return np.diff(np.searchsorted(_times_ns(marks, key), np.sort(np.concatenate(ends_ns))))


def _per_iteration(
    marks: RankMarks, key: tuple[str, str], host_ns: Nanoseconds
) -> npt.NDArray[np.int64]:
    """How many marks of a series each iteration has."""
    return np.diff(np.searchsorted(_times_ns(marks, key), host_ns, side="right"))


def _times_ns(marks: RankMarks, key: tuple[str, str]) -> Nanoseconds:
    return np.array([marks.time_ns(place) for place in marks.series[key].places], np.int64)


def script_clock(
    marks: RankMarks, host_ns: Nanoseconds, iterations: Iterations
) -> ScriptClock | None:
    """By the lines that read a clock as often in each iteration, or once in so many; None without
    such a line. What is between the reads of several lines is one iteration but for the shortest
    part, which the program may not have timed.
    """
    lines = {key[1]: _times_ns(marks, key) for key in marks.series if key[0] == "clock"}
    lines = {site: times for site, times in lines.items() if len(times) > 2}
    once = {site: times for site, times in lines.items() if _is_once(times, host_ns, iterations)}
    if len(once) > 1:
        site = max(once, key=lambda name: (len(once[name]), once[name][-1]))
        timed_ns = _timed_ns(marks, host_ns, site, once, bool(iterations.alike.all()))
        found = timed_ns, float(np.median(iterations.compared_ns))
    else:
        by_site = {site: _between_ns(times, host_ns, iterations) for site, times in lines.items()}
        known = {site: both for site, both in by_site.items() if both[0]}
        if not known:
            return None
        site = max(known, key=lambda name: len(lines[name]))
        found = known[site]
    clock_ns, report_ns = found
    if not clock_ns:
        return None
    reads = _reads_per_iteration(lines[site], host_ns)
    return ScriptClock(site, len(lines[site]), reads, clock_ns, report_ns / clock_ns - 1)


def _is_once(times_ns: Nanoseconds, host_ns: Nanoseconds, iterations: Iterations) -> bool:
    """Whether each of the iterations that are compared has one such read."""
    reads = np.diff(np.searchsorted(times_ns, host_ns, side="right"))
    return bool((reads[iterations.alike][:-1] == 1).all())


def _timed_ns(
    marks: RankMarks,
    host_ns: Nanoseconds,
    site: str,
    lines: dict[str, Nanoseconds],
    all_alike: bool,
) -> int:
    """Of lines that read once in each: between reads of one of them around equal work (around any,
    where all iterations are alike), without the shortest part between two reads. An evaluation
    reads the same lines and ends no iteration: reads count that have an iteration's end between
    them.
    """
    places = marks.series["clock", site].places
    ended = np.diff(np.searchsorted(host_ns, lines[site])) == 1
    work = marks.work(places)
    ending = [number for number in range(len(work)) if ended[number]]
    middle = sorted(work[number] for number in ending)[len(ending) // 2] if ending else 0
    times_ns = np.sort(np.concatenate(list(lines.values())))
    timed = []
    for number in ending:
        if all_alike or are_alike(work[number], middle):
            ends_ns = marks.time_ns(places[number]), marks.time_ns(places[number + 1])
            inside = (times_ns >= ends_ns[0]) & (times_ns <= ends_ns[1])
            parts = np.diff(times_ns[inside][-len(lines) - 1 :])
            timed.append(int(parts.sum() - parts.min()))
    return int(np.median(timed)) if timed else 0


def _between_ns(
    times_ns: Nanoseconds, host_ns: Nanoseconds, iterations: Iterations
) -> tuple[int, float]:
    """Of one line: from read to read, over the iterations between; 0 if their number varies. Beside
    it, what the report has of the iterations that lie mostly between these reads. Both are means of
    reads around iterations that are alike: a host that runs ahead of its GPU until it waits reads
    unequal times, which are right in the mean alone.
    """
    times_ns = times_ns[(times_ns >= host_ns[0]) & (times_ns <= host_ns[-1])]
    # A read is no begin while the device has much of the first iteration to do: the next waits.
    much_ns = DISAGREEMENT * float(np.median(iterations.durations_ns))
    settled_ns = times_ns[times_ns + much_ns >= iterations.boundaries_ns[0]]
    if len(settled_ns) > 1:
        times_ns = settled_ns
    if len(times_ns) < 2:
        return 0, 0.0
    passed = np.searchsorted(host_ns, times_ns, side="left")
    reads_each = max(1, _reads_per_iteration(times_ns, host_ns))
    begins, ends = times_ns[:-reads_each], times_ns[reads_each:]
    between = passed[reads_each:] - passed[:-reads_each]
    if not len(between) or (between != between[0]).any() or not between[0]:
        return 0, 0.0
    starts, stops = np.maximum(passed[:-reads_each] - 1, 0), passed[reads_each:]
    around = [iterations.alike[start:stop].all() for start, stop in zip(starts, stops, strict=True)]
    if not any(around):
        return 0, 0.0
    is_timed = np.zeros(len(times_ns) - 1, np.bool_)
    for first in np.flatnonzero(around):
        is_timed[first : first + reads_each] = True
    timed_ns = np.concatenate([[0], np.cumsum(np.diff(times_ns) * is_timed)])
    covered_ns = np.diff(np.interp(host_ns, times_ns, timed_ns))
    covered = 2 * covered_ns >= np.diff(host_ns)
    if not covered.any():
        covered = covered_ns > 0
    clock_ns = int((ends - begins)[around].mean() / between[0])
    return clock_ns, float(iterations.durations_ns[covered].mean())


def _reads_per_iteration(times_ns: Nanoseconds, host_ns: Nanoseconds) -> int:
    """Of one line, in the middle one; 0 where it reads once in several."""
    return int(np.median(np.diff(np.searchsorted(times_ns, host_ns, side="right"))))


def _counted(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"
