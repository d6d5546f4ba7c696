"""Least squares for a few positive constants, by damped Gauss-Newton steps on their logarithms.

Residuals are differences of logarithms of times; one that is large counts as its size, not as its
square (soft L1), so that an odd measurement does not move the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

# Beyond this a residual counts linearly: assumed, some times the scatter of repeated nccl-tests.
_SOFT = 0.1
_DIFFERENCE = 1e-4
_ROUNDS = 60
_SMALLEST_GAIN = 1e-7
# No step changes a constant by more than this factor's logarithm.
_LONGEST_STEP = 0.5


class Fit(NamedTuple):
    """Constants, and how the residuals change with their logarithms."""

    constants: Vector
    residuals: Vector
    jacobian: Vector
    """One row for each residual."""


def fit(
    residuals_of: Callable[[Vector], Vector],
    start: Vector,
    lowest: Vector | None = None,
    highest: Vector | None = None,
) -> Fit:
    """The constants near `start`, all above 0, that make the residuals least."""
    lower = np.full(len(start), -np.inf) if lowest is None else np.log(lowest)
    upper = np.full(len(start), np.inf) if highest is None else np.log(highest)

    def at(logarithms: Vector) -> Vector:
        return residuals_of(np.exp(logarithms))

    here = np.clip(np.log(start), lower, upper)
    residuals = at(here)
    damping = 1e-2
    jacobian = _jacobian(at, here, residuals)
    for _ in range(_ROUNDS):
        weights = 1 / np.sqrt(1 + (residuals / _SOFT) ** 2)
        square = jacobian.T @ (weights[:, None] * jacobian)
        downhill = jacobian.T @ (weights * residuals)
        scale = np.diag(np.maximum(np.diag(square), 1e-9))
        step = np.clip(
            -np.linalg.solve(square + damping * scale, downhill), -_LONGEST_STEP, _LONGEST_STEP
        )
        there = np.clip(here + step, lower, upper)
        found = at(there)
        gain = 1 - cost(found) / max(cost(residuals), 1e-300)
        if gain <= 0:
            damping *= 10
            if damping > 1e9:
                break
            continue
        damping = max(damping / 10, 1e-9)
        here, residuals = there, found
        jacobian = _jacobian(at, here, residuals)
        if gain < _SMALLEST_GAIN:
            break
    return Fit(np.exp(here), residuals, jacobian)


def cost(residuals: Vector) -> float:
    """What a fit makes least."""
    return float(np.sum(np.sqrt(1 + (residuals / _SOFT) ** 2) - 1))


def _jacobian(at: Callable[[Vector], Vector], here: Vector, residuals: Vector) -> Vector:
    columns = []
    for index in range(len(here)):
        moved = here.copy()
        moved[index] += _DIFFERENCE
        columns.append((at(moved) - residuals) / _DIFFERENCE)
    return np.array(columns, dtype=np.float64).T
