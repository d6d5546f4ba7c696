"""Flame graphs: boxes of a tree, each as wide as its share, below the box that it is part of."""

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
    parts: tuple[str, ...]
    """Of its path, from the top."""
    top: str
    """The first of them."""
    left: float
    width: float
    value: float
    """With all below it."""
    own: float
    """Without."""


def boxes(values: Mapping[tuple[str, ...], float], separator: str = ".") -> list[list[Box]]:
    """Levels of a tree from the top, each from left to right. `values`: by path, each without
    what is below it; `separator`: between its parts. Siblings keep the order in which the paths
    come; what a node does itself is the empty space right below it.
    """
    whole = sum(values.values())
    totals: dict[tuple[str, ...], float] = defaultdict(float)
    for path, value in values.items():
        for depth in range(1, len(path) + 1):
            totals[path[:depth]] += value
    levels: list[list[Box]] = [[] for _ in range(max(map(len, totals), default=0))]
    free: dict[tuple[str, ...], float] = defaultdict(float)
    for path in sorted(totals, key=len):
        above, width = path[:-1], totals[path] / whole if whole else 0.0
        left = free[above]
        free[above] = left + width
        free[path] = left
        if width >= _NARROWEST:
            box = Box(
                *(path[-1], separator.join(path[1:]) or path[0], path, path[0]),
                *(left, width, totals[path], values.get(path, 0.0)),
            )
            levels[len(path) - 1].append(box)
    return [level for level in levels if level]
