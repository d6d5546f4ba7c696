"""What measured neighbours say of a signature that was not measured: their ratio to the model.

A family is what signatures of different sizes share; sizes are coordinates, as logarithms. The
model knows tiles and waves and the ratio does not jump with them, so it is the ratio that is
interpolated, and the model times it is the duration.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import exp, log, log2
from typing import Any

import numpy as np

# A neighbour may be twice as large in four sizes, or sixteen times in one (assumed).
_REACH = 4.0
_MOST = 4
_SIZES = {
    "gemm": ("m", "n", "k", "batch"),
    "library": (
        *("batch", "heads", "seqlen_q", "seqlen_k", "x", "w", "y", "channels", "pixels"),
        *("bytes", "flops", "m", "n", "k"),
    ),
    "kernel": ("grid", "scalars", "sizes"),
}
# Of no bearing where the sizes are known.
_LEFT_OUT = ("lda", "ldb", "ldc", "strides", "group_sizes")
# Of the logarithm of a ratio, beside what the neighbours disagree by: of a neighbour itself, and
# for each doubling between it and what is asked for. `kernel_accuracy` checks the coverage.
_SIGMA, _SIGMA_PER_DOUBLING = 0.03, 0.04
# Of a normal distribution, 90 % are within so many standard deviations.
_NINETY = 1.645


def place(signature: Mapping[str, Any]) -> tuple[str, tuple[float, ...]]:
    """Family and coordinates of a signature; coordinates of one family are equally many."""
    sizes = _SIZES.get(signature["kind"], ())
    family: dict[str, Any] = {}
    coordinates: list[float] = []
    for name in sorted(signature):
        value = signature[name]
        if name in _LEFT_OUT:
            continue
        if name not in sizes:
            family[name] = value
            continue
        numbers = _numbers(value)
        # How many there are, and which parameters, is the family's.
        family[name] = _form(value)
        coordinates += [log2(1 + max(0, number)) for number in numbers]
    return json.dumps(family, sort_keys=True), tuple(coordinates)


def _numbers(value: Any) -> list[int]:
    if isinstance(value, Mapping):
        return [int(value[key]) for key in sorted(value)]
    if isinstance(value, Sequence):
        return [int(one[1]) if isinstance(one, Sequence) else int(one) for one in value]
    return [int(value)]


def _form(value: Any) -> Any:
    if isinstance(value, Mapping):
        return sorted(value)
    if isinstance(value, Sequence):
        return [one[0] if isinstance(one, Sequence) else "" for one in value]
    return ""


class Neighbours:
    """Measured members of one family: coordinates, and how long each took relative to the model."""

    def __init__(self) -> None:
        self._coordinates: list[tuple[float, ...]] = []
        self._ratios: list[float] = []

    def add(self, coordinates: tuple[float, ...], ratio: float) -> None:
        """One more."""
        self._coordinates.append(coordinates)
        self._ratios.append(log(ratio))

    def ratio(self, coordinates: tuple[float, ...]) -> tuple[float, float, float] | None:
        """What the model is to be multiplied with, and the ends of the 90 % interval of what comes
        out, as multiples of it. None: nothing is near.
        """
        apart = np.array(self._coordinates) - np.array(coordinates)
        distances = np.sqrt(np.square(apart).sum(axis=1))
        # Of equally near ones the first that was added.
        nearest = np.argsort(distances, kind="stable")[:_MOST]
        nearest = nearest[distances[nearest] <= _REACH]
        if not len(nearest):
            return None
        near, ratios = distances[nearest], np.array(self._ratios)[nearest]
        weights = 1 / np.square(near + 0.1)
        weights /= weights.sum()
        mean = float(weights @ ratios)
        disagreement = float(weights @ np.square(ratios - mean))
        own = _SIGMA + _SIGMA_PER_DOUBLING * float(weights @ near)
        reach = _NINETY * (disagreement + own**2) ** 0.5
        return exp(mean), exp(-reach), exp(reach)
