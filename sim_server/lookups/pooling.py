"""How many rows a sample looks up in a table: the distribution of the pooling factor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim_server.errors import UsageError
from sim_server.lookups.read import number, numbers

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Pooling:
    """`kind`: fixed, poisson, geometric, or values with their weights. `mean` above 0."""

    kind: str
    mean: float
    values: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()

    def lengths(self, samples: int, random: np.random.Generator) -> Integers:
        """A pooling factor for each sample; a mean that is no integer is kept in the mean."""
        if self.kind == "poisson":
            return random.poisson(self.mean, samples)
        if self.kind == "geometric":
            return random.geometric(1 / (1 + self.mean), samples) - 1
        if self.kind == "values":
            chances = np.array(self.weights) / sum(self.weights)
            return random.choice(np.array(self.values, dtype=np.int64), samples, p=chances)
        whole = int(self.mean)
        lengths = np.full(samples, whole, dtype=np.int64)
        lengths[: round((self.mean - whole) * samples)] += 1
        return random.permutation(lengths)


def read_pooling(spec: float | Mapping[str, Any]) -> Pooling:
    """From a number, which is fixed, or an object with a kind (docs/recommendation.md).

    Raises: UsageError.
    """
    if not isinstance(spec, Mapping):
        return Pooling("fixed", _mean({"pooling": spec}, "pooling"))
    kind = str(spec.get("kind", "fixed"))
    if kind not in ("fixed", "poisson", "geometric", "values"):
        raise UsageError(f"there is no pooling of kind {kind!r}: fixed, poisson, geometric, values")
    known = ["kind", "values", "weights"] if kind == "values" else ["kind", "mean"]
    if unknown := sorted(set(spec) - set(known)):
        raise UsageError(f"pooling of kind {kind} has no {unknown[0]!r}; {', '.join(known)}")
    if kind != "values":
        return Pooling(kind, _mean(spec, "mean"))
    values, weights = numbers(spec, "values"), numbers(spec, "weights")
    if len(values) != len(weights) or sum(weights) <= 0 or any(v % 1 for v in values):
        raise UsageError("pooling of kind values needs whole values and a weight for each")
    mean = sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)
    return Pooling("values", _mean({"mean": mean}, "mean"), values, weights)


def _mean(spec: Mapping[str, Any], key: str) -> float:
    mean = number(spec, key, 0)
    if mean <= 0:
        raise UsageError(f"{key} must be above 0, not {mean:g}")
    return mean
