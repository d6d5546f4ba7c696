"""Solvers that look like max-min fairness and are not.

The property suite is judged by whether it rejects every one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from sim_server.network import max_min_rates

Capacities = Sequence[float]
Paths = Sequence[Sequence[int]]
Caps = Sequence[float]


def _count(paths: Paths) -> dict[int, int]:
    count: dict[int, int] = {}
    for path in paths:
        for link in path:
            count[link] = count.get(link, 0) + 1
    return count


def equal_split(capacities: Capacities, paths: Paths, caps: Caps) -> list[float]:
    """Each link is divided equally; what slower flows leave is not given to others."""
    count = _count(paths)
    return [
        min(cap, *(capacities[link] / count[link] for link in path))
        for path, cap in zip(paths, caps, strict=True)
    ]


def first_come(capacities: Capacities, paths: Paths, caps: Caps) -> list[float]:
    """Each flow takes all that those before it have left."""
    left = list(capacities)
    rates = []
    for path, cap in zip(paths, caps, strict=True):
        rate = min(cap, *(left[link] for link in path))
        for link in path:
            left[link] -= rate
        rates.append(rate)
    return rates


def one_level(capacities: Capacities, paths: Paths, caps: Caps) -> list[float]:
    """Filling stops for all flows at the first full link."""
    count = _count(paths)
    level = min(capacities[link] / flows for link, flows in count.items())
    return [min(cap, level) for cap in caps]


def first_link_only(capacities: Capacities, paths: Paths, caps: Caps) -> list[float]:
    """Only the first link of a path counts."""
    return max_min_rates(capacities, [path[:1] for path in paths], caps)


def weighted_by_length(capacities: Capacities, paths: Paths, caps: Caps) -> list[float]:
    """Longer paths get proportionally less."""
    weights: dict[int, float] = {}
    for path in paths:
        for link in path:
            weights[link] = weights.get(link, 0.0) + 1 / len(path)
    return [
        min(cap, *(capacities[link] / weights[link] / len(path) for link in path))
        for path, cap in zip(paths, caps, strict=True)
    ]


def without_caps(capacities: Capacities, paths: Paths, caps: Caps) -> list[float]:
    """The flows' own limits are forgotten."""
    return max_min_rates(capacities, paths, [inf] * len(caps))


def caps_afterwards(capacities: Capacities, paths: Paths, caps: Caps) -> list[float]:
    """Caps are applied to the finished rates, and what they free is lost."""
    free = max_min_rates(capacities, paths, [inf] * len(caps))
    return [min(rate, cap) for rate, cap in zip(free, caps, strict=True)]


def shortest_first(capacities: Capacities, paths: Paths, caps: Caps) -> list[float]:
    """Most bytes in total: short paths are served first."""
    order = sorted(range(len(paths)), key=lambda flow: len(paths[flow]))
    served = first_come(capacities, [paths[flow] for flow in order], [caps[flow] for flow in order])
    rates = [0.0] * len(paths)
    for flow, rate in zip(order, served, strict=True):
        rates[flow] = rate
    return rates


WRONG_SOLVERS = (
    equal_split,
    first_come,
    one_level,
    first_link_only,
    weighted_by_length,
    without_caps,
    caps_afterwards,
    shortest_first,
)
