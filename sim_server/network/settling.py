"""Congestion control as a rate model: rates approach their fair share, they do not jump to it.

With a time constant T a flow's rate is

    rate(t) = fair + (rate(0) - fair) * exp(-t / T)

from every change of its fair share on; a new flow starts from nothing. What one flow gives up
another takes in the same measure, so links carry no more than they can as long as capacities stay:
the rates are a mean of two allocations that fit. The bytes of a flow have a closed form, so that
nothing more happens in virtual time than without it. What a control does beside that (overshoot,
oscillation, lost packets) is not modelled.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, expm1

# Newton's method comes nearer from one side; it ends when it stands still.
_ROUNDS = 100


@dataclass(frozen=True)
class Settling:
    """How fast rates approach their fair share, and where."""

    time_s: float
    """The time constant."""
    links: frozenset[int]
    """Flows that use one of these settle, and so do those that share links with them."""

    def holds(self, paths: Iterable[Iterable[int]]) -> bool:
        """Whether flows that share links settle; on other links rates change at once."""
        return any(not self.links.isdisjoint(path) for path in paths)

    def moved_bytes(self, rate: float, excess: float, seconds: float) -> float:
        """What a flow has moved since it was `excess` above its fair `rate`. Bytes per second."""
        return rate * seconds - excess * self.time_s * expm1(-seconds / self.time_s)

    def excess(self, excess: float, seconds: float) -> float:
        """What is left of a flow's distance from its fair rate."""
        return excess * exp(-seconds / self.time_s)

    def seconds_for(self, size_bytes: float, rate: float, excess: float) -> float:
        """How long a flow takes for so many bytes, if its fair rate stays."""
        # Convex below the fair rate and concave above it, so that each step stays on its side.
        seconds = max((size_bytes - excess * self.time_s) / rate, 0.0)
        for _ in range(_ROUNDS):
            speed = rate + self.excess(excess, seconds)
            nearer = seconds - (self.moved_bytes(rate, excess, seconds) - size_bytes) / speed
            if nearer == seconds or (excess < 0) == (nearer > seconds):
                break
            seconds = nearer
        return seconds
