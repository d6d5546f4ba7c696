"""Time, money and energy, if they were asked for (`report --tokens 2e12 --price 2.50`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

from rich.markup import escape

from phantora_py.report.communication import CommunicationRow, communication_rows
from phantora_py.report.findings import Findings
from phantora_py.report.page.part import PageFindings, PagePart
from phantora_py.report.sections import throughput
from phantora_py.text.units import (
    amount_text,
    duration_text,
    energy_text,
    long_time_text,
    money_text,
    percent_text,
    size_text,
)
from sim_server.errors import UsageError

_BILLION = 1e9
_HOUR_S = 3600.0
# Kinds of operations that are shown, those that take most time (assumed to be enough).
_MOST_OPERATIONS = 3


class Estimate(TypedDict):
    """A figure with its 90 % interval, as of the iteration time; null where that is not known."""

    value: float
    low: float | None
    high: float | None


class Price(TypedDict):
    """What a piece of work takes."""

    time_s: Estimate
    cost: Estimate | None
    """In the currency of `--price`; null without."""
    energy_j: Estimate | None
    """Of the GPUs alone, at `--power`; null without."""


class LinkUse(TypedDict):
    """Operations that are alike, and what their links allow."""

    kind: str
    participants: str
    size_bytes: int
    bus_bytes_per_s: float
    """As nccl-tests counts it."""
    links_bytes_per_s: float
    """The most that links allow, without sums in switches."""


class Trade(TypedDict):
    """Time, money and energy (docs/deciding.md)."""

    gpus: int
    price_per_hour: float | None
    """Of all GPUs together."""
    power_w: float | None
    """Likewise."""
    unit: str | None
    """`tokens` or `samples`; null: what an iteration gets through is not known."""
    iteration: Price
    per_billion: Price | None
    """Of 1e9 units. Null without a unit."""
    goal: float | None
    """So many units, as asked for."""
    iterations: float | None
    """That the goal takes."""
    to_goal: Price | None
    """Null without a goal."""
    links: list[LinkUse]
    """Of the kinds of operations that take most time."""


@dataclass(frozen=True)
class Goal:
    """What `--tokens`, `--samples`, `--price` and `--power` ask for."""

    unit: str | None
    """None: no amount is asked for."""
    amount: float
    price_per_hour: float | None
    """Of all GPUs together."""
    power_w: float | None
    """Of one GPU."""


def make(found: Findings) -> Trade | None:
    """None: it was not asked for. Raises: UsageError if the run does not tell it."""
    goal = found.asked.goal
    if goal is None:
        return None
    if not found.median_ns:
        raise UsageError(
            f"{found.data.path} has no iteration that takes time, so that nothing is known to cost "
            "any. --iteration tells what an iteration is."
        )
    gpus = found.data.ranks
    power_w = None if goal.power_w is None else goal.power_w * gpus
    unit, amount = _work(found, goal)
    iteration_s = float(found.iterations.compared_ns.mean()) / 1e9
    factors = (found.certainty.low, found.certainty.high) if found.certainty else None

    def price(time_s: float) -> Price:
        def times(rate: float) -> Estimate:
            value = time_s * rate
            low, high = (value * factors[0], value * factors[1]) if factors else (None, None)
            return {"value": value, "low": low, "high": high}

        per_hour = goal.price_per_hour
        return {
            "time_s": times(1.0),
            "cost": None if per_hour is None else times(per_hour / _HOUR_S),
            "energy_j": None if power_w is None else times(power_w),
        }

    iterations = goal.amount / amount if goal.unit and amount else None
    return {
        "gpus": gpus,
        "price_per_hour": goal.price_per_hour,
        "power_w": power_w,
        "unit": unit,
        "iteration": price(iteration_s),
        "per_billion": price(iteration_s * _BILLION / amount) if amount else None,
        "goal": goal.amount if goal.unit else None,
        "iterations": iterations,
        "to_goal": price(iteration_s * iterations) if iterations else None,
        "links": _links(found),
    }


def _work(found: Findings, goal: Goal) -> tuple[str | None, float | None]:
    """What an iteration gets through. Raises: UsageError if a goal is in units of which nobody
    knows.
    """
    run = throughput.make(found)
    for unit in [goal.unit] if goal.unit else ["tokens", "samples"]:
        known = run["tokens" if unit == "tokens" else "samples"] if run else None
        if known is not None and known["is_whole"]:
            return unit, known["per_iteration"]
    if goal.unit:
        raise UsageError(
            f"--{goal.unit}: how many {goal.unit} an iteration of the whole run gets through is "
            f"not known. Tell it, for example with --per-iteration '64x4096 {goal.unit}'."
        )
    return None, None


def _links(found: Findings) -> list[LinkUse]:
    uses = [_link_use(row) for row in communication_rows(found.data, found.window)]
    return [use for use in uses if use is not None][:_MOST_OPERATIONS]


def _link_use(row: CommunicationRow) -> LinkUse | None:
    if row.bus_bytes_per_s is None or row.links_bytes_per_s is None:
        return None
    return {
        "kind": row.kind,
        "participants": row.layout,
        "size_bytes": row.size_bytes,
        "bus_bytes_per_s": row.bus_bytes_per_s,
        "links_bytes_per_s": row.links_bytes_per_s,
    }


def lines(made: Trade | None) -> list[str]:
    """On a terminal."""
    if made is None:
        return []
    said = ["Time and money"]
    kinds = ["", *(["cost "] if made["price_per_hour"] is not None else [])]
    for what, texts in _rows(made):
        named = [
            f"{kind}{text}" for kind, text in itertools.zip_longest(kinds, texts, fillvalue="")
        ]
        said.append(f"  {what:<{_WIDTH}}   {'   '.join(named)}")
    return said + [f"  {_use_text(use)}" for use in made["links"]]


def _use_text(use: LinkUse) -> str:
    bus, most = use["bus_bytes_per_s"], use["links_bytes_per_s"]
    return (
        f"{escape(use['kind'])} of {size_text(use['size_bytes'])}, {escape(use['participants'])}: "
        f"bus bandwidth {_bandwidth(bus)} of {_bandwidth(most)} ({percent_text(bus / most)})"
    )


_WIDTH = 22


def _bandwidth(bytes_per_s: float) -> str:
    return f"{amount_text(bytes_per_s / 1e9)} GB/s"


def _rows(made: Trade) -> list[tuple[str, list[str]]]:
    rows = [("an iteration", _texts(made["iteration"], lambda s: duration_text(s * 1e9)))]
    if made["per_billion"] is not None:
        rows.append((f"1e9 {made['unit']}", _texts(made["per_billion"], long_time_text)))
    if made["to_goal"] is not None:
        rows.append((f"{made['goal']:g} {made['unit']}", _texts(made["to_goal"], long_time_text)))
        rows[-1][1].append(f"{amount_text(made['iterations'] or 0)} iterations")
    return rows


def _texts(price: Price, time_text: Callable[[float], str]) -> list[str]:
    figures: list[tuple[Estimate | None, Callable[[float], str]]] = [
        (price["time_s"], time_text),
        (price["cost"], money_text),
        (price["energy_j"], energy_text),
    ]
    return [_text(one, text) for one, text in figures if one is not None]


def _text(one: Estimate, text: Callable[[float], str]) -> str:
    if one["low"] is None or one["high"] is None:
        return text(one["value"])
    return f"{text(one['value'])} ({text(one['low'])} to {text(one['high'])})"


def _views(found: PageFindings) -> dict[str, Any]:
    made = make(found)
    return {"trade_rows": _rows(made) if made else []}


PAGE = PagePart(
    "trade", "Time and money", _views, is_shown=lambda found: found.asked.goal is not None
)
