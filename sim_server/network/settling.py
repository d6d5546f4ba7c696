"""Congestion control as a rate model: rates approach their fair share, they do not jump to it.

With a time constant T a flow's rate is

    rate(t) = fair + (rate(0) - fair) * exp(-t / T)

from every change of its fair share on; a new flow starts from nothing. What one flow gives up
another takes in the same measure, so links carry no more than they can as long as capacities stay:
the rates are a mean of two allocations that fit. The bytes of a flow have a closed form, so that
nothing more happens in virtual time than without it (csrc/network/settling.h). What a control does
beside that (overshoot, oscillation, lost packets) is not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settling:
    """How fast rates approach their fair share, and where."""

    time_s: float
    """The time constant."""
    links: frozenset[int]
    """Flows that use one of these settle, and so do those that share links with them."""
