"""Flame graphs: boxes of a tree, each as wide as its time, below the box that it is part of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

# Narrower boxes, as shares of the whole, are not drawn: less than a pixel.
_NARROWEST = 1 / 2000


@dataclass(frozen=True)
class Box:
    """One node of the tree. `left`, `width`: shares of the whole."""

    name: str
    """Of the last part of its path."""
    path: str
    top: str
    """The first part of its path."""
    left: float
    width: float
    time_ns: float
    """With all below it."""
    own_ns: float
    """Without."""


def boxes(times_ns: Mapping[tuple[str, ...], float]) -> list[list[Box]]:
    """Levels of a tree from the top, each from left to right. `times_ns`: by path, each without
    what is below it. Siblings keep the order in which the paths come; what a node does itself is
    the empty space right below it.
    """
    whole_ns = sum(times_ns.values())
    totals_ns: dict[tuple[str, ...], float] = defaultdict(float)
    for path, time_ns in times_ns.items():
        for depth in range(1, len(path) + 1):
            totals_ns[path[:depth]] += time_ns
    levels: list[list[Box]] = [[] for _ in range(max(map(len, totals_ns), default=0))]
    free: dict[tuple[str, ...], float] = defaultdict(float)
    for path in sorted(totals_ns, key=len):
        above, width = path[:-1], totals_ns[path] / whole_ns if whole_ns else 0.0
        left = free[above]
        free[above] = left + width
        free[path] = left
        if width >= _NARROWEST:
            box = Box(
                *(path[-1], ".".join(path[1:]) or path[0], path[0]),
                *(left, width, totals_ns[path], times_ns.get(path, 0.0)),
            )
            levels[len(path) - 1].append(box)
    return [level for level in levels if level]
