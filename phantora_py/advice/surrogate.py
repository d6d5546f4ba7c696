"""What runs of some configurations say of the others: Gaussian processes over their values.

Time and memory are close to a product of what each value does (a layout, a micro-batch,
checkpointing), and of what two of them do together. So logarithms are modelled, with a kernel that
has a term for each value, for each two of them and so on (an ANOVA kernel: Duvenaud et al., 2011).
The next to run is the one that is expected to improve most on the best so far (Jones, Schonlau and
Welch, 1998), times the probability that it fits in memory (Schonlau, Welch and Jones, 1998).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# How much of what a value does depends on another one: each is weighed by how likely it makes what
# was seen (assumed: from next to nothing to most).
_TOGETHER = (0.01, 0.03, 0.1, 0.3, 1.0)
# What is thought of the kernel's scale before anything is seen: 0.1, and that counts as one run
# (assumed; without it a few runs that happen to be alike are taken to tell everything).
_SCALE, _SCALE_WEIGHT = 0.1, 1
# Of the variance: no noise, but what no sum of terms says, and what keeps the matrix regular.
_REST = 1e-4
# What those that did not fit asked for, of what there is; how far off a foretold peak may be, as a
# logarithm (assumed).
_TOO_MUCH = 1.25
_PEAK_DEVIATION = 0.1
_NORMAL = NormalDist()


class Surrogate:
    """Of the configurations of a space, by number."""

    def __init__(self, values: Sequence[Mapping[str, Any]]) -> None:
        names = dict.fromkeys(name for one in values for name in one)
        columns = [[one.get(name) for one in values] for name in names]
        differing = [column for column in columns if any(one != column[0] for one in column)]
        self._count = len(values)
        self._common = [_in_common(column) for column in differing]
        self.differing = len(differing)
        """How many values differ."""

    def unknown(self, seen: Sequence[int]) -> Array:
        """How little is known of each after those that were seen, whatever they were."""
        return _fit(self._kernel(_TOGETHER[2]), list(seen), np.zeros(len(seen))).deviation

    def predict(self, seen: Mapping[int, float]) -> tuple[Array, Array]:
        """Mean and standard deviation of the logarithm of each, by what was seen of some."""
        logarithms = np.log(list(seen.values()))
        centre = float(logarithms.mean())
        fits = [_fit(self._kernel(one), list(seen), logarithms - centre) for one in _TOGETHER]
        likelihoods = np.array([one.likelihood for one in fits])
        weights = np.exp(likelihoods - likelihoods.max())
        weights /= weights.sum()
        means = np.array([one.mean for one in fits])
        squares = np.array([one.deviation for one in fits]) ** 2 + means**2
        mean = weights @ means
        return mean + centre, np.sqrt(np.maximum(weights @ squares - mean**2, 0.0))

    def improvement(self, losses: Mapping[int, float]) -> Array:
        """By which part of the best each is expected to be better."""
        mean, deviation = self.predict(losses)
        below = math.log(min(losses.values())) - mean
        known = deviation <= 0
        distance = below / np.where(known, 1.0, deviation)
        likely = np.array([_NORMAL.cdf(one) for one in distance])
        density = np.array([_NORMAL.pdf(one) for one in distance])
        return np.where(known, np.maximum(below, 0.0), below * likely + deviation * density)

    def fitting(self, peaks: Mapping[int, float], too_much: Sequence[int]) -> Array:
        """With which probability each fits. `peaks`: what those that did have taken of the memory
        that there is.
        """
        if not too_much or not peaks:
            return np.ones(self._count)
        mean, deviation = self.predict({**peaks, **dict.fromkeys(too_much, _TOO_MUCH)})
        distance = -mean / np.maximum(deviation, _PEAK_DEVIATION)
        return np.array([_NORMAL.cdf(one) for one in distance])

    def _kernel(self, together: float) -> Array:
        product = np.ones((self._count, self._count))
        for one in self._common:
            product *= 1 + together * one
        return product - 1 if self._common else product


def _in_common(column: Sequence[object]) -> Array:
    """Of each two values: 1 of the same, less the further apart numbers are; 0 of other words."""
    numbers = [one for one in column if isinstance(one, (int, float)) and one is not True]
    if len(numbers) == len(column) and False not in numbers:
        places = np.array(numbers, float)
        if (places > 0).all():
            places = np.log(places)
        places /= np.ptp(places)
        common: Array = np.exp(-((places[:, None] - places) ** 2))
        return common
    return np.array([[float(one == other) for other in column] for one in column])


@dataclass(frozen=True)
class _Fit:
    """What a kernel says of each. `likelihood`: the logarithm of that of what was seen."""

    mean: Array
    deviation: Array
    likelihood: float


def _fit(kernel: Array, seen: list[int], values: Array) -> _Fit:
    """At the scale that makes what was seen likeliest."""
    rest = _REST * float(np.diag(kernel).mean())
    of_seen = kernel[np.ix_(seen, seen)] + rest * np.eye(len(seen))
    solved = np.linalg.solve(of_seen, kernel[seen])
    square = float(values @ np.linalg.solve(of_seen, values)) + _SCALE_WEIGHT * _SCALE**2
    scale = math.sqrt(square / (len(seen) + _SCALE_WEIGHT))
    variance = np.diag(kernel) - np.einsum("ij,ij->j", kernel[seen], solved)
    determinant = float(np.linalg.slogdet(of_seen)[1])
    return _Fit(
        mean=values @ solved,
        deviation=scale * np.sqrt(np.maximum(variance, 0.0)),
        likelihood=-0.5 * determinant - (len(seen) + _SCALE_WEIGHT) * math.log(scale),
    )
