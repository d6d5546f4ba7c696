"""What a search is for, with its units, and how much it may cost."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from phantora_py.compare.json_types import ComparedRun
from phantora_py.compare.quantities import Prices, hourly_cost
from sim_server.errors import UsageError

FORMS = "'time to 2e12 tokens', 'cost of 2e12 tokens', 'tokens/s' or 'tokens/s/GPU'"
_GOAL = re.compile(r"(time to|cost of)\s+(\S+)\s+(tokens|samples)")
_RATE = re.compile(r"(tokens|samples)/s(/GPU)?")
_BUDGET = re.compile(r"([0-9.]+)\s*(runs?|s|min|h)")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_HOUR_S = 3600.0


@dataclass(frozen=True)
class Objective:
    """`kind`: "time", "cost" or "rate"."""

    text: str
    kind: str
    unit: str
    amount: float = 1.0
    per_gpu: bool = False

    def loss(self, run: ComparedRun, prices: Prices) -> float:
        """Of a run that finished, the less the better: seconds, money, or seconds a unit.

        Raises: UsageError if the run does not tell its units, or a price is missing.
        """
        found = run["throughput"]
        if found is None or found["unit"] != self.unit or not found["per_s"]:
            raise UsageError(
                f"objective '{self.text}': {run['name']} does not tell how many {self.unit} it "
                f"gets through. Tell it: --per-iteration '{{batch}}x4096 {self.unit}'."
            )
        seconds = self.amount / found["per_s"]
        if self.kind != "cost":
            return seconds * (sum(run["gpus"].values()) if self.per_gpu else 1)
        per_hour = hourly_cost(prices, run["gpus"])
        if per_hour is None:
            raise UsageError(f"objective '{self.text}': --price has no price of {run['gpu']}.")
        return seconds * per_hour / _HOUR_S

    def value(self, loss: float) -> float:
        """In the objective's own units."""
        return 1 / loss if self.kind == "rate" else loss


def parse_objective(text: object) -> Objective:
    """Raises: UsageError for one without units."""
    found = _GOAL.fullmatch(str(text).strip())
    if found:
        try:
            amount = float(found[2])
        except ValueError:
            amount = math.nan
        if 0 < amount < math.inf:
            return Objective(str(text), found[1].split()[0], found[3], amount)
    rate = _RATE.fullmatch(str(text).strip())
    if rate:
        return Objective(str(text), "rate", rate[1], per_gpu=rate[2] is not None)
    raise UsageError(f"objective {text!r} has no units that can be counted; write {FORMS}.")


@dataclass(frozen=True)
class Budget:
    """At most so many runs, or seconds of this machine; None: without end."""

    runs: float = math.inf
    seconds: float = math.inf

    def is_left(self, spent: Mapping[str, float]) -> bool:
        """Whether another run may begin."""
        return spent["runs"] < self.runs and spent["seconds"] < self.seconds


def parse_budget(text: object) -> Budget:
    """`20 runs`, `30 min`. Raises: UsageError, also for a budget of nothing."""
    found = _BUDGET.fullmatch(str(text).strip())
    try:
        amount = float(found[1]) if found else 0.0
    except ValueError:
        amount = 0.0
    if found is None or not 0 < amount < math.inf:
        raise UsageError(
            f"budget {text!r} is nothing that could be spent; write for example '20 runs', "
            "'30 min' or '2 h'."
        )
    if found[2].startswith("run"):
        return Budget(runs=amount)
    return Budget(seconds=amount * _SECONDS[found[2]])
