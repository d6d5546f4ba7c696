"""What published runs differ from predictions by beyond what the models' own intervals allow.

A run is within its interval if its time is between 1 - hypot(shorter, below) and
1 + hypot(longer, above) of the predicted one: the report's rule for independent errors, with
`below` and `above` the same for all runs. They are fitted so that at most a twentieth of the runs
lies beyond either: of fewer than twenty, none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from predict import Prediction
from published import Run

_TAIL = 0.95


@dataclass(frozen=True)
class Outcome:
    """A run and what was predicted of it."""

    run: Run
    predicted: Prediction

    @property
    def error(self) -> float:
        """Of the predicted time, as a share of the published one."""
        return self.predicted.seconds / self.run.seconds - 1

    @property
    def error_as_is(self) -> float:
        """With the kernels of today."""
        return self.predicted.as_is_s / self.run.seconds - 1

    @property
    def truth(self) -> float:
        """What the prediction has to be multiplied with."""
        return self.run.seconds / self.predicted.seconds

    @property
    def memory_error(self) -> float | None:
        """Of the peak that PyTorch's allocator reserved; None where none was published."""
        if self.run.memory_gib is None:
            return None
        return self.predicted.memory_gib / self.run.memory_gib - 1


@dataclass(frozen=True)
class Spread:
    """Shares of the predicted time."""

    below: float
    above: float

    def holds(self, one: Outcome) -> bool:
        """Whether the run is within its interval."""
        low = 1 - math.hypot(one.predicted.shorter, self.below)
        return low <= one.truth <= 1 + math.hypot(one.predicted.longer, self.above)


def fit(outcomes: Sequence[Outcome]) -> Spread:
    """To at least one run."""
    lacking = [
        (
            _beyond(1 - one.truth, one.predicted.shorter),
            _beyond(one.truth - 1, one.predicted.longer),
        )
        for one in outcomes
    ]
    below, above = np.quantile(lacking, _TAIL, axis=0, method="higher")
    return Spread(float(below), float(above))


def _beyond(distance: float, own: float) -> float:
    return math.sqrt(max(0.0, distance) ** 2 - own**2) if distance > own else 0.0


def held_out(outcomes: Sequence[Outcome]) -> dict[str, tuple[Spread, int]]:
    """By family: the fit to all others, and how many of the family's runs it holds."""
    found = {}
    for family in dict.fromkeys(one.run.family for one in outcomes):
        others = [one for one in outcomes if one.run.family != family]
        spread = fit(others) if others else Spread(0.0, 0.0)
        inside = sum(spread.holds(one) for one in outcomes if one.run.family == family)
        found[family] = spread, inside
    return found
