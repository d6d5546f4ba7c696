"""The best configuration of a space, without running all of it in full.

Successive halving (Jamieson and Talwalkar, 2016): every configuration runs with cheap values, the
best third with less cheap ones, and those that are left in full, in the order that the last cheap
run gives, until what is left cannot be better than the best any more. Two cheap runs that differ in
one number, as that of layers, say what the full run will take. What does not fit with few layers
does not fit with all of them. The runs are those of a sweep, with its results.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from phantora_py.advice.json_types import Candidate, Search, Stage
from phantora_py.advice.space import Space
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
# By how much at least a cheap run may rank a configuration too low, however alike the ratios of
# full to cheap runs have been (assumed).
_DOUBT = 0.02

Run = Callable[[Sequence[Configuration]], list[Result]]


@dataclass
class _State:
    """Of each configuration by number, the loss that cheap runs tell, and that of its full one."""

    space: Space
    run: Run
    tell: Callable[[str], None]
    cheap: dict[int, float] = field(default_factory=dict)
    full: dict[int, float] = field(default_factory=dict)
    results: dict[int, Result] = field(default_factory=dict)
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
        """Runs them as far as the budget goes; the losses of those that finished."""
        before = dict(self.spent)
        losses: dict[int, float] = {}
        for number in numbers:
            if not self.space.budget.is_left(self.spent):
                break
            configuration = make(number)
            (result,) = self.run([configuration])
            self.spent["runs"] += 1
            self.spent["seconds"] += result.wall_s
            self._judge(number, configuration, result, losses)
        count = int(self.spent["runs"] - before["runs"])
        wall_s = self.spent["seconds"] - before["seconds"]
        if count:
            self.stages.append({"name": name, "runs": count, "wall_s": wall_s})
        return losses

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


def search(space: Space, run: Run, tell: Callable[[str], None] = lambda _: None) -> Search:
    """Searches. `tell` is told how each run ended.

    Raises: RankFailed if none finished in full; UsageError if a run is refused.
    """
    state = _State(space, run, tell)
    left = list(range(len(space.configurations)))
    before: dict[int, float] = {}
    for rung in range(len(space.cheap)):
        losses = state.carry_out(
            f"cheap {rung + 1}",
            left,
            functools.partial(_cheaper, space, rung),
        )
        state.cheap |= losses
        if rung:
            state.foretell(rung, before, losses)
        before = losses
        left = sorted(losses, key=state.cheap.__getitem__)
        left = left[: max(_LEAST, math.ceil(len(left) / _KEPT))]
    ended = _in_full(state, left)
    if not state.full:
        raise RankFailed(
            "No configuration finished in full.",
            "; ".join(f"{space.configurations[n].name}: {w}" for n, w in state.why_not.items()),
        )
    return _result(state, ended)


def _in_full(state: _State, left: Sequence[int]) -> str:
    """In order, until nothing that is left can be better; why it ended."""
    waiting = list(left)
    while waiting:
        number = waiting[0]
        if state.full and state.cheap and not _may_win(state, number):
            return "no other candidate can be better, as far as cheap runs tell"
        if not state.space.budget.is_left(state.spent):
            return f"the budget is spent; {len(waiting)} candidates were not run in full"
        state.full |= state.carry_out(
            "full", [waiting.pop(0)], lambda one: state.space.configurations[one]
        )
    return "all candidates were run in full"


def _may_win(state: _State, number: int) -> bool:
    """Whether a full run may be better than the best so far, by its cheap run and by how far the
    two have differed: below the least ratio of those that ran in full by as much as these spread.
    """
    ratios = [state.full[one] / state.cheap[one] for one in state.full if one in state.cheap]
    if len(ratios) < 2:
        return True
    low, high = min(ratios), max(ratios)
    least = min(low - (high - low), (1 - _DOUBT) * low)
    return state.cheap[number] * least < min(state.full.values())


def _result(state: _State, ended: str) -> Search:
    space = state.space
    order = sorted(state.full, key=state.full.__getitem__)
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
        "stages": _joined(state.stages),
        "ended": ended,
        "ranking": [
            _candidate(state, number, run, mark)
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


def _candidate(state: _State, number: int, run: ComparedRun, mark: bool) -> Candidate:
    objective = state.space.objective
    cheap = state.cheap.get(number)
    return {
        "name": state.space.configurations[number].name,
        "value": objective.value(state.full[number]),
        "cheap_value": None if cheap is None else objective.value(cheap),
        "pareto": mark,
        "file": str(state.results[number].data),
        "figures": run,
    }


def _joined(stages: Sequence[Stage]) -> list[Stage]:
    """Runs in full are carried out one by one."""
    by_name: dict[str, Stage] = {}
    for one in stages:
        total = by_name.setdefault(one["name"], {"name": one["name"], "runs": 0, "wall_s": 0.0})
        total["runs"] += one["runs"]
        total["wall_s"] += one["wall_s"]
    return list(by_name.values())
