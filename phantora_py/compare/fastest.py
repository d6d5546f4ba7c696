"""Which configuration of a sweep is the fastest, and whether it can be told apart from the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from phantora_py.compare.comparison import Configuration, compare
from phantora_py.compare.json_types import ComparedRun, Fastest
from phantora_py.compare.quantities import Work, parse_prices
from phantora_py.sweep.pareto import costs_of


def find_fastest(
    configurations: Sequence[Configuration], figures: Sequence[ComparedRun]
) -> Fastest | None:
    """In time of a unit of work, if that is known, else of an iteration. `figures`: of the same
    runs, as a comparison has them. None if no run finished.

    Against the next in a comparison of these two: errors that both have cancel.
    """
    times = {
        one.name: costs[0]
        for one, run in zip(configurations, figures, strict=True)
        if (costs := costs_of(run)) is not None
    }
    if not times:
        return None
    by_name: Mapping[str, Configuration] = {
        one.name: _with_work(one, run) for one, run in zip(configurations, figures, strict=True)
    }
    best, *others = sorted(times, key=times.__getitem__)
    if not others:
        return {"name": best, "next": None, "speed_up": None}
    _, against = compare([by_name[others[0]], by_name[best]], parse_prices([]))["runs"]
    return {"name": best, "next": others[0], "speed_up": against["speed_up"]}


def _with_work(one: Configuration, run: ComparedRun) -> Configuration:
    """What an iteration gets through is as the figures say, also where only its report tells it."""
    found = run["throughput"]
    return replace(one, work=Work(found["per_iteration"], found["unit"])) if found else one


def fastest_text(found: Fastest) -> str:
    """As a sentence."""
    name, other, ratio = found["name"], found["next"], found["speed_up"]
    if other is None:
        return f"{name} is the only one that finished."
    if ratio is None:
        return f"Fastest: {name}; the next is {other}, by a factor that is not known."
    text = f"Fastest: {name}, {ratio['value']:#.4g} times as fast as the next, {other}"
    if ratio["distinguishable"] is None:
        return f"{text}; whether that is more than the error of the models is not known."
    if not ratio["distinguishable"]:
        return (
            f"{text}: the two cannot be told apart ({ratio['low']:#.3g} to {ratio['high']:#.3g})."
        )
    return f"{text} ({ratio['low']:#.3g} to {ratio['high']:#.3g})."
