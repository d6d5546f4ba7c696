"""The best configuration of a space, without running all of it.

Some configurations run with cheap values; what these say of the others (`surrogate.py`) decides
which runs next, until no other one is expected to be better. With several tables of cheap values
the best third goes on to the next (successive halving: Jamieson and Talwalkar, 2016). Then they run
in full, in the order that cheap runs give, until what is left cannot be better than the best. Two
cheap runs that differ in one number, as that of layers, say what the full run will take. What does
not fit with few layers does not fit with all of them. The runs are those of a sweep.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from phantora_py.advice.json_types import Candidate, Search, Stage
from phantora_py.advice.space import Space
from phantora_py.advice.surrogate import Surrogate
from phantora_py.advice.trend import predicted
from phantora_py.compare.comparison import Configuration as Read
from phantora_py.compare.comparison import compare, read_configuration
from phantora_py.compare.fastest import find_fastest
from phantora_py.compare.json_types import Changes, ComparedRun
from phantora_py.compare.quantities import work_of
from phantora_py.sweep.pareto import costs_of, front
from phantora_py.sweep.plan import Configuration
from phantora_py.sweep.results import Result
from sim_server.errors import RankFailed, UsageError

SCHEMA = 1
_KEPT = 3
"""One in so many goes on to the next stage, as in Hyperband's paper; no fewer than `_LEAST`."""
_LEAST = 3
# Of how many something has to be seen before it foretells any other.
_FEWEST = 2
# By how much at least a cheap run may rank a configuration too low, however alike the ratios of
# full to cheap runs have been (assumed).
_DOUBT = 0.02
# Full runs have taken what cheap ones told if they differ by no more than this part (assumed).
_SAME = 0.001
# Nothing else is tried if it is expected to improve by less than this part (assumed: less than
# what any model is right by).
_NOTHING = 0.001

Run = Callable[[Sequence[Configuration]], list[Result]]


@dataclass
class _State:
    """Of each configuration by number, the loss that cheap runs tell, and that of its full one."""

    space: Space
    run: Run
    tell: Callable[[str], None]
    jobs: int = 1
    cheap: dict[int, float] = field(default_factory=dict)
    full: dict[int, float] = field(default_factory=dict)
    as_full: dict[int, float] = field(default_factory=dict)
    """Of the cheap ones, if they have been found to take what full ones do."""
    results: dict[int, Result] = field(default_factory=dict)
    """Of those that finished, the last."""
    peaks: dict[int, float] = field(default_factory=dict)
    """Of the memory that there is, of the same."""
    why_not: dict[int, str] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=lambda: {"runs": 0, "seconds": 0.0})
    stages: list[Stage] = field(default_factory=list)

    def foretell(self, rung: int, before: dict[int, float], losses: dict[int, float]) -> None:
        """What these losses and those of the rung before say of full runs, where they do."""
        for number, loss in losses.items():
            found = predicted(self.space, rung, number, before[number], loss)
            if found is not None:
                self.cheap[number] = found

    def carry_out(
        self, name: str, numbers: Sequence[int], make: Callable[[int], Configuration]
    ) -> dict[int, float]:
        """Runs them, `jobs` at a time, as far as the budget goes; the losses of those that
        finished.
        """
        losses: dict[int, float] = {}
        waiting = list(numbers)
        while waiting and self.space.budget.is_left(self.spent):
            size = int(min(self.jobs, self.space.budget.runs - self.spent["runs"]))
            batch, waiting = waiting[: max(1, size)], waiting[max(1, size) :]
            plan = [make(number) for number in batch]
            for number, configuration, result in zip(batch, plan, self.run(plan), strict=True):
                self.spent["runs"] += 1
                self.spent["seconds"] += result.wall_s
                self._add(name, result)
                self._judge(number, configuration, result, losses)
        return losses

    def _add(self, name: str, result: Result) -> None:
        """To what its stage has cost."""
        stage = next((one for one in self.stages if one["name"] == name), None)
        if stage is None:
            stage = {"name": name, "runs": 0, "wall_s": 0.0, "cpu_s": 0.0}
            self.stages.append(stage)
        stage["runs"] += 1
        stage["wall_s"] += result.wall_s
        known = stage["cpu_s"] is not None and result.cpu_s is not None
        stage["cpu_s"] = stage["cpu_s"] + result.cpu_s if known else None  # type: ignore[operator]

    def _judge(
        self, number: int, configuration: Configuration, result: Result, losses: dict[int, float]
    ) -> None:
        when = "before" if result.cached else f"in {result.wall_s:.1f} s"
        if result.exit_code == UsageError.exit_code:
            # Nothing is known of a configuration whose run was refused: it is no loser.
            raise UsageError(f"{configuration.name}: its run is refused: {result.message}")
        if result.exit_code or result.data is None:
            why = "out of memory" if result.out_of_memory else result.message
            self.why_not[number] = why
            self.tell(f"{configuration.name}   {why}   ({when})")
            return
        read = _read(self.space, configuration, result)
        figures = compare([read], self.space.prices)["runs"][0]
        if figures["fits"] is False:
            self.why_not[number] = "fits with retries only"
            self.tell(f"{configuration.name}   fits with retries only   ({when})")
            return
        losses[number] = self.space.objective.loss(figures, self.space.prices)
        self.results[number] = result
        if figures["peak_memory_bytes"]:
            self.peaks[number] = figures["peak_memory_bytes"] / figures["capacity_bytes"]
        value = self.space.objective.value(losses[number])
        self.tell(f"{configuration.name}   {value:.4g}   ({when})")


def _cheaper(space: Space, rung: int, number: int) -> Configuration:
    return space.cheaper(space.configurations[number], rung)


def _read(space: Space, configuration: Configuration, result: Result) -> Read:
    assert result.data is not None, "it finished"
    work = None
    if space.per_iteration is not None:
        work = work_of(configuration.fill(space.per_iteration, "per_iteration"))
    return read_configuration(result.data, configuration.name, work)


def search(
    space: Space, run: Run, tell: Callable[[str], None] = lambda _: None, jobs: int = 1
) -> Search:
    """Searches. `run` is given up to `jobs` at a time; `tell` is told how each run ended.

    Raises: RankFailed if none finished in full; UsageError if a run is refused.
    """
    state = _State(space, run, tell, jobs)
    surrogate = Surrogate([one.values for one in space.configurations])
    if space.cheap:
        ended = _by_cheap_runs(state, surrogate)
    else:
        state.full = _explore(state, surrogate, "full", space.configurations.__getitem__)
        ended = _spent(state) or "no other candidate is expected to be better"
    if not state.full:
        raise RankFailed(
            "No configuration finished in full.",
            "; ".join(f"{space.configurations[n].name}: {w}" for n, w in state.why_not.items()),
        )
    return _result(state, ended)


def _spent(state: _State) -> str:
    left = len(state.space.configurations) - len(state.full) - len(state.why_not)
    if not left or state.space.budget.is_left(state.spent):
        return ""
    return f"the budget is spent; {left} candidates were not run in full"


def _explore(
    state: _State, surrogate: Surrogate, name: str, make: Callable[[int], Configuration]
) -> dict[int, float]:
    """Runs those that may improve most, until none is expected to; the losses."""
    losses: dict[int, float] = {}
    tried: list[int] = []
    while state.space.budget.is_left(state.spent):
        batch = _next(state, surrogate, losses, tried)
        if not batch:
            break
        tried += batch
        losses |= state.carry_out(name, batch, make)
    return losses


def _next(
    state: _State, surrogate: Surrogate, losses: Mapping[int, float], tried: Sequence[int]
) -> list[int]:
    """As many as run at a time. Those before count as having taken what is foretold of them. The
    first few, two more than values differ, are those that most is learned from.
    """
    batch: list[int] = []
    taken = dict(losses)
    too_much = [number for number in tried if number not in losses]
    while len(batch) < state.jobs:
        known = [*tried, *batch]
        left = [one for one in range(len(state.space.configurations)) if one not in known]
        learns = len(known) < surrogate.differing + 2 or len(losses) < _FEWEST
        gain = surrogate.unknown(known) if learns else surrogate.improvement(taken)
        gain = gain * surrogate.fitting(state.peaks, too_much)
        number = max(left, key=gain.__getitem__, default=None)
        if number is None or not (learns or gain[number] >= _NOTHING):
            break
        batch.append(number)
        if losses:
            taken[number] = math.exp(surrogate.predict(losses)[0][number])
    return batch


def _by_cheap_runs(state: _State, surrogate: Surrogate) -> str:
    """Why it ended."""
    make = functools.partial(_cheaper, state.space, 0)
    losses = _explore(state, surrogate, "cheap 1", make)
    state.cheap |= losses
    if len(state.space.cheap) == 1:
        best = sorted(losses, key=losses.__getitem__)[: state.jobs]
        state.full |= state.carry_out("full", best, state.space.configurations.__getitem__)
        if state.full and _cheap_are_full(state):
            state.as_full = losses
            left = [one for one in losses if one not in best]
            return _in_full(state, sorted(left, key=state.cheap.__getitem__))
    left = _best_third(state, surrogate, losses)
    more = state.carry_out("cheap 1", [one for one in left if one not in losses], make)
    state.cheap |= more
    before = losses | more
    left = [one for one in left if one in before]
    for rung in range(1, len(state.space.cheap)):
        make = functools.partial(_cheaper, state.space, rung)
        losses = state.carry_out(f"cheap {rung + 1}", left, make)
        state.cheap |= losses
        state.foretell(rung, before, losses)
        before = losses
        left = sorted(losses, key=state.cheap.__getitem__)
        left = left[: max(_LEAST, math.ceil(len(left) / _KEPT))]
    left = [one for one in left if one not in state.full and one not in state.why_not]
    return _in_full(state, sorted(left, key=state.cheap.__getitem__))


def _best_third(state: _State, surrogate: Surrogate, losses: Mapping[int, float]) -> list[int]:
    """Of all that did not fail, by what has been run or is foretold."""
    if not losses:
        return []
    foretold = surrogate.predict(losses)[0]
    left = [one for one in range(len(foretold)) if one not in state.why_not]
    left.sort(key=foretold.__getitem__)
    return left[: max(_LEAST, math.ceil(len(left) / _KEPT))]


def _ratios(state: _State) -> list[float]:
    return [state.full[one] / state.cheap[one] for one in state.full if one in state.cheap]


def _cheap_are_full(state: _State) -> bool:
    """Whether full runs have taken just what cheap ones told, as folded ones do."""
    return all(abs(one - 1) <= _SAME for one in _ratios(state))


def _in_full(state: _State, left: Sequence[int]) -> str:
    """In order, until nothing that is left can be better; why it ended."""
    waiting = list(left)
    while waiting:
        if state.full and not _may_win(state, waiting[0]):
            return "no other candidate can be better, as far as cheap runs tell"
        if not state.space.budget.is_left(state.spent):
            return f"the budget is spent; {len(waiting)} candidates were not run in full"
        batch, waiting = waiting[: state.jobs], waiting[state.jobs :]
        state.full |= state.carry_out("full", batch, state.space.configurations.__getitem__)
    return "all candidates were run in full"


def _may_win(state: _State, number: int) -> bool:
    """Whether a full run may be better than the best so far, by its cheap run and by how far the
    two have differed: below the least ratio of those that ran in full by as much as these spread.
    Where cheap runs are as good as full ones, 1 is one of the ratios.
    """
    ratios = _ratios(state)
    if _cheap_are_full(state):
        low, high = min(*ratios, 1.0), max(*ratios, 1.0)
        doubt = 0.0
    elif len(ratios) < 2:
        return True
    else:
        low, high = min(ratios), max(ratios)
        doubt = _DOUBT
    least = min(low - (high - low), (1 - doubt) * low)
    return state.cheap[number] * least < min(state.full.values())


def _result(state: _State, ended: str) -> Search:
    space = state.space
    losses = state.as_full | state.full
    order = sorted(losses, key=losses.__getitem__)
    read = [_read(space, space.configurations[number], state.results[number]) for number in order]
    runs = compare(read, space.prices)["runs"]
    marks = front([costs_of(one) for one in runs])
    why: Changes | None = None
    if len(read) > 1:
        why = compare([read[1], read[0]], space.prices)["changes"][0]
    return {
        "schema": SCHEMA,
        "objective": space.objective.text,
        "configurations": len(space.configurations),
        "left_out": space.left_out,
        "stages": state.stages,
        "ended": ended,
        "ranking": [
            _candidate(state, number, losses[number], run, mark)
            for number, run, mark in zip(order, runs, marks, strict=True)
        ],
        "did_not_run": [
            {"name": space.configurations[number].name, "why": why_not}
            for number, why_not in state.why_not.items()
        ],
        "fastest": find_fastest(read, runs),
        "why": why,
        "command": list(space.configurations[order[0]].command),
        "run_options": dict(space.configurations[order[0]].run),
        "environment": dict(space.configurations[order[0]].environment),
    }


def _candidate(state: _State, number: int, loss: float, run: ComparedRun, mark: bool) -> Candidate:
    objective = state.space.objective
    cheap = state.cheap.get(number)
    return {
        "name": state.space.configurations[number].name,
        "in_full": number in state.full,
        "value": objective.value(loss),
        "cheap_value": None if cheap is None else objective.value(cheap),
        "pareto": mark,
        "file": str(state.results[number].data),
        "figures": run,
    }
