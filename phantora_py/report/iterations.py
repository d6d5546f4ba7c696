"""Where the iterations of a run begin and end, found without a word in the script.

What ends an iteration is found as the server finds it while the run goes on
(sim_server/log/iterations.py); where nothing is marked, in the launches themselves. An iteration
ends on a rank when the host has passed the boundary and the device has finished what was issued
before it: the host runs ahead of the device, so the host's time alone would tell how fast work is
queued.
The iteration ends for the run when it has ended on the last rank.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from phantora_py.data import RunData
from phantora_py.report.gpus import moves_from
from phantora_py.report.launch_period import repeated_launches
from phantora_py.report.taken_batches import taken_batches
from sim_server.errors import UsageError
from sim_server.log.history import COMMUNICATION_SPAN, HOST_WAIT_SPAN
from sim_server.log.iterations import (
    EVERY_RANK,
    RankMarks,
    Rule,
    are_alike,
    choose,
)
from sim_server.settings import Choice, parse_choice

Nanoseconds = npt.NDArray[np.int64]

_ALIKE_TAKEN = 0.1
"""Iterations whose samples differ by more do other work: an epoch's last batch, say (assumed)."""
_OTHER_SIZES = 0.25
"""Iterations whose durations spread more, by this share of the middle one, are of batches or
sequences of any size (assumed)."""
_OTHER_KERNELS = 0.25
"""The choice of kernels for these changes no more than that share of the launches (assumed)."""
_MOST_NAMES = 12
"""So many are listed."""
_MOSTLY = 0.75
"""So many iterations have to take the usual number of samples for others to be set apart: a loader
that runs ahead fetches none in one and two in the next (assumed)."""


@dataclass(frozen=True)
class Iterations:
    """Boundaries of the iterations of a run."""

    detected_by: str
    """"marker", "optimizer", "profiler", "clock", "scheduler", "nvtx", "backward", "call",
    "launches" or "none"."""
    boundaries_ns: Nanoseconds
    """Shape [count + 1]: the first is the end of the warm-up iteration. Empty if none was found."""
    alike: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    """Shape [count]: whether an iteration does the work that most of them do; all, unless told."""
    rule: Rule | None = None
    """Of the first rank whose marks were gone by."""
    held_share: float = 1.0
    """So much of the devices' time in the whole run is work of the iterations that are compared."""

    def __post_init__(self) -> None:
        if not len(self.alike):
            object.__setattr__(self, "alike", np.ones(self.count, np.bool_))

    @property
    def durations_ns(self) -> Nanoseconds:
        """Of all after the warm-up. Shape [count]."""
        return np.diff(self.boundaries_ns)

    @property
    def compared_ns(self) -> Nanoseconds:
        """Of those that are compared: equal work alone. Shape [compared]."""
        return self.durations_ns[self.alike]

    @property
    def count(self) -> int:
        """Iterations after the warm-up."""
        return len(self.durations_ns)

    @property
    def compared(self) -> int:
        """Those that do equal work."""
        return int(self.alike.sum())

    @property
    def warmup_ns(self) -> int | None:
        """Virtual time from the start of the run to the end of its first iteration."""
        return int(self.boundaries_ns[0]) if len(self.boundaries_ns) else None


@dataclass(frozen=True)
class Steps:
    """How iterations are found, and when each rank's host ends them."""

    detected_by: str
    rule: Rule | None = None
    host_times: dict[int, Nanoseconds] = field(default_factory=dict)
    marks: dict[int, RankMarks] = field(default_factory=dict)
    """Of the ranks that have left any."""


_found: WeakKeyDictionary[RunData, tuple[Steps, Iterations]] = WeakKeyDictionary()


def find_iterations(data: RunData) -> Iterations:
    """The iterations of a run. Raises: UsageError if it lacks what its reader asks for. Where it
    lacks what the run itself was told, they are found out.
    """
    return _find(data)[1]


def find_steps(data: RunData) -> Steps:
    """Of the hosts. Raises: as `find_iterations`."""
    return _find(data)[0]


def _find(data: RunData) -> tuple[Steps, Iterations]:
    if data not in _found:
        steps = _steps(data)
        _found[data] = steps, _iterations(data, steps)
    return _found[data]


def _iterations(data: RunData, steps: Steps) -> Iterations:
    if not steps.host_times:
        return Iterations(steps.detected_by, np.empty(0, np.int64))
    count = min(_ended(data, rank, times) for rank, times in steps.host_times.items())
    host_times = {rank: times[:count] for rank, times in steps.host_times.items()}
    per_rank = [_device_boundaries(data, rank, times) for rank, times in host_times.items()]
    latest: Nanoseconds = np.max(np.stack(per_rank), axis=0)
    alike = _equal_work(data, host_times, np.diff(latest))
    held = _held_share(data, host_times, alike)
    return Iterations(steps.detected_by, latest, alike, steps.rule, held)


def _ended(data: RunData, rank: int, host_times: Nanoseconds) -> int:
    """How many of a rank's iterations have ended. Where a run was cut short its host may be far
    ahead: work before a mark is done for certain if there is some after it. A run that was stopped
    when steady knows how many had ended by then.
    """
    steady = data.run.get("steady")
    if not (data.is_cut_short or steady):
        return len(host_times)
    spans = data.spans_of(rank)
    issues_ns = spans["issue_ns"][spans["kind"] != HOST_WAIT_SPAN]
    last_ns = issues_ns.max() if len(issues_ns) else 0
    ended = int(np.searchsorted(host_times, last_ns, side="left"))
    return max(ended, min(steady["iterations"], len(host_times))) if steady else ended


def _held_share(
    data: RunData, host_times: dict[int, Nanoseconds], alike: npt.NDArray[np.bool_]
) -> float:
    """How much of the ranks' device time is of these iterations; 1 if there is none at all. What
    waits for another rank, which may read data for minutes, does nothing.
    """
    held_ns = whole_ns = 0
    for rank, times in host_times.items():
        spans = data.spans_of(rank)
        spans = spans.compress(spans["kind"] != HOST_WAIT_SPAN)
        begins_ns, communicates = spans["start_ns"].copy(), spans["kind"] == COMMUNICATION_SPAN
        begins_ns[communicates] = moves_from(data, spans.compress(communicates))
        spent_ns = np.concatenate([[0], np.cumsum(spans["end_ns"] - begins_ns)])
        issued = np.searchsorted(spans["issue_ns"], times, side="right")
        held_ns += int(np.diff(spent_ns[issued])[alike].sum())
        whole_ns += int(spent_ns[-1])
    return held_ns / whole_ns if whole_ns else 1.0


def _marks_of(data: RunData) -> dict[int, RankMarks]:
    """What each rank has marked, with the work between; ranks without marks are not there."""
    by_rank: dict[int, RankMarks] = {}
    for rank, time_ns, kind, name in data.markers:
        by_rank.setdefault(rank, RankMarks()).hear(time_ns, kind, name)
    for rank, marks in by_rank.items():
        spans = data.spans_of(rank)
        spans = spans.compress(spans["kind"] != HOST_WAIT_SPAN)
        marks.add_work(spans["issue_ns"], spans["end_ns"])
        while marks.next_time_ns() is not None:
            marks.take()
    return by_rank


def _rules(
    by_rank: dict[int, RankMarks], choice: Choice | None
) -> tuple[dict[int, Rule | None], Rule | None]:
    """By rank, and that of the first rank that has one."""
    rules = {rank: choose(marks, choice) for rank, marks in by_rank.items()}
    return rules, next((rule for rule in rules.values() if rule is not None), None)


def _steps(data: RunData) -> Steps:
    choice = None if data.iteration is None else parse_choice(data.iteration)
    by_rank = _marks_of(data)
    rules, leading = _rules(by_rank, choice)
    if leading is None and choice is not None:
        if data.is_iteration_asked_for:
            raise _unknown(data, choice, by_rank)
        rules, leading = _rules(by_rank, None)
    if leading is None:
        times = repeated_launches(data)
        return Steps("launches" if times else "none", None, times, by_rank)
    host_times = {}
    for rank, marks in by_rank.items():
        own = rules[rank]
        rule = leading if (leading.by, leading.name) in marks.series else own
        if rule is None or rule.by != leading.by:
            continue
        times_ns = [marks.time_ns(place) for place in marks.ends(rule)]
        if times_ns:
            host_times[rank] = np.array(times_ns, np.int64)
    if leading.by not in EVERY_RANK:
        count = len(next(iter(host_times.values()), ()))
        host_times = {rank: times for rank, times in host_times.items() if len(times) == count}
    return Steps(leading.by, leading, host_times, by_rank)


def _unknown(data: RunData, choice: Choice, by_rank: dict[int, RankMarks]) -> UsageError:
    """What there is of the kind that was asked for."""
    found = {name for marks in by_rank.values() for by, name in marks.series if by == choice.by}
    why = {
        "optimizer": f"no such optimizer has stepped; by number, these have: {_listed(found)}",
        "nvtx": f"no NVTX range of this name has ended; these have: {_listed(found)}",
        "profiler": "there was no step of torch.profiler",
        "call": _no_call(data, choice, found),
    }[choice.by]
    return UsageError(
        f"--iteration {choice.text}: {why}. The data of the run are in {data.path}; "
        f"`phantora report {shlex.quote(str(data.path))}` without --iteration finds what repeats."
    )


def _listed(names: set[str]) -> str:
    """Those of optimizers, as AdamW#0, with their numbers first."""
    parts = [name.rpartition("#") for name in names]
    shown = sorted(
        (int(number), f"{number} ({name})") if mark and number.isdecimal() else (0, number)
        for name, mark, number in parts
    )
    texts = [text for _, text in shown[:_MOST_NAMES]]
    more = len(shown) - len(texts)
    return (", ".join(texts) or "none") + (f" and {more} more" if more else "")


def _no_call(data: RunData, choice: Choice, watched: set[str]) -> str:
    if watched or data.settings.get("iteration") != choice.text:
        return (
            f"it was not watched in this run, which watched {_listed(watched)}; give it to "
            "`phantora run`"
        )
    return (
        "it never returned: the program did not import that module, or calls no such function of "
        "it. Functions of the program's own file cannot be watched"
    )


def _equal_work(
    data: RunData, host_times: dict[int, Nanoseconds], durations_ns: Nanoseconds
) -> npt.NDArray[np.bool_]:
    """Which iterations have as many launches and take as much as the middle one; all, if these are
    not more than half. Where those of as many launches last differently, sizes change, and with
    them the kernels that are chosen: then a few launches more or less are no other work.
    """
    launches = np.sum([_launches(data, rank, times) for rank, times in host_times.items()], axis=0)
    if not len(launches):
        return np.empty(0, np.bool_)
    middle = int(np.sort(launches)[len(launches) // 2])
    alike = np.array([are_alike(one, middle, len(host_times)) for one in launches.tolist()])
    low_ns, median_ns, high_ns = np.percentile(durations_ns[alike], [10, 50, 90])
    if high_ns - low_ns > _OTHER_SIZES * median_ns:
        alike = np.abs(launches - middle) <= _OTHER_KERNELS * middle
    for taken in _taken(data, host_times):
        usual = np.abs(taken - np.median(taken)) <= _ALIKE_TAKEN * np.median(taken)
        if usual.mean() >= _MOSTLY:
            alike &= usual
    return alike if 2 * alike.sum() > len(alike) else np.ones_like(alike)


def _taken(data: RunData, host_times: dict[int, Nanoseconds]) -> list[npt.NDArray[np.int64]]:
    """Samples that each iteration took, of all ranks together: by table, graph or loader."""
    found: dict[tuple[str, str], npt.NDArray[np.int64]] = {}
    for one in taken_batches(data):
        times_ns = host_times.get(one.rank)
        if times_ns is None:
            continue
        # What is taken when the mark is set is of the next iteration.
        number = int(np.searchsorted(times_ns, one.time_ns, side="right")) - 1
        if 0 <= number < len(times_ns) - 1:
            empty = np.zeros(len(times_ns) - 1, np.int64)
            found.setdefault((one.source, one.key), empty)[number] += one.samples
    return list(found.values())


def _launches(data: RunData, rank: int, host_times: Nanoseconds) -> npt.NDArray[np.int64]:
    spans = data.spans_of(rank)
    issues_ns = spans["issue_ns"].compress(spans["kind"] != HOST_WAIT_SPAN)
    return np.diff(np.searchsorted(issues_ns, host_times, side="right"))


def _device_boundaries(data: RunData, rank: int, host_times: Nanoseconds) -> Nanoseconds:
    spans = data.spans_of(rank)
    if not len(spans):
        return host_times
    latest_end = np.maximum.accumulate(spans["end_ns"])
    issued = np.searchsorted(spans["issue_ns"], host_times, side="right")
    done = np.where(issued > 0, latest_end[np.maximum(issued - 1, 0)], 0)
    return np.maximum(host_times, done)
