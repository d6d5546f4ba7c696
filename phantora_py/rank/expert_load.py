"""Which experts tokens go to where nobody knows it: a distribution, laid out without chance.

docs/decisions/small-operations.md has the rule. The standard library only: ranks import it.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

FILE = "expert-load.json"


@dataclass(frozen=True)
class ExpertLoad:
    """How often each expert is chosen. `name`: as the user gave it.

    With an exponent the load of expert i is as 1 / (i + 1) ** exponent; with weights it is as
    these. With neither every expert has the same.
    """

    name: str = "uniform"
    exponent: float | None = None
    weights: tuple[float, ...] = ()

    @property
    def is_uniform(self) -> bool:
        return self.exponent is None and not self.weights

    def of(self, choices: int) -> tuple[float, ...] | None:
        """The weights of so many experts; None if it says nothing of so many."""
        if self.exponent is not None:
            return tuple((i + 1) ** -self.exponent for i in range(choices))
        return self.weights if len(self.weights) == choices else None

    def write(self, run_dir: Path) -> None:
        """For the ranks."""
        fields = {"name": self.name, "exponent": self.exponent, "weights": self.weights}
        (run_dir / FILE).write_text(json.dumps(fields), encoding="utf-8")

    @staticmethod
    def read(run_dir: Path) -> ExpertLoad:
        """What was written there."""
        fields = json.loads((run_dir / FILE).read_text(encoding="utf-8"))
        return ExpertLoad(fields["name"], fields["exponent"], tuple(fields["weights"]))


@functools.cache
def borders(weights: tuple[float, ...], tokens: int, top: int) -> list[int]:
    """Where each expert's part of all `tokens * top` choices ends.

    No part is longer than `tokens`, so that choice j of token t, at `j * tokens + t`, is never an
    expert that the token has chosen before.
    """
    ends = itertools.accumulate(shares(weights, top))
    return [int(tokens * top * end) for end in ends]


def shares(weights: Sequence[float], top: int) -> list[Fraction]:
    """The part of all choices that goes to each expert: as the weights, but `1 / top` at most.

    A token goes to an expert only once; what a heavy one cannot take goes to the others, as their
    weights are, or evenly if they have none. Exact, so that no part is rounded to more.
    """
    most = Fraction(1, top)
    taken = [Fraction(0)] * len(weights)
    left, rest = dict(enumerate(map(Fraction, weights))), Fraction(1)
    while rest:
        total = sum(left.values())
        part = {
            i: rest * (weight / total if total else Fraction(1, len(left)))
            for i, weight in left.items()
        }
        full = [i for i, share in part.items() if share > most]
        if not full:
            for i, share in part.items():
                taken[i] = share
            break
        for i in full:
            taken[i] = most
            rest -= most
            del left[i]
    return taken
