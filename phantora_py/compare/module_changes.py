"""Modules of two runs side by side: what GPU time each takes, and a flame graph of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from phantora_py.compare.json_types import ChangedModule, ModuleFigures
from phantora_py.report.page.flame import Box, boxes
from phantora_py.report.sections.modules import ModuleTimes, in_order

# A change by so much of the first run's time has the full colour (assumed: more is not told apart).
_FULL = 0.5


def changed_modules(first: ModuleTimes | None, this: ModuleTimes | None) -> list[ChangedModule]:
    """Of two runs that know their modules, as phases and modules follow each other: those of
    either, also where nothing changed.
    """
    if first is None or this is None:
        return []
    figures = [
        {(one["phase"], one["path"]): _figures(one) for one in made["scopes"]}
        for made in (first, this)
    ]
    nothing = ModuleFigures(launches=0.0, gpu_ns=0.0, exposed_ns=0.0)
    return [
        {
            "phase": phase,
            "path": path,
            "first": figures[0].get((phase, path), nothing),
            "this": figures[1].get((phase, path), nothing),
        }
        for phase, path in sorted({**figures[0], **figures[1]}, key=lambda one: in_order(*one))
    ]


def _figures(one: Any) -> ModuleFigures:
    return {
        "launches": one["launches"],
        "gpu_ns": one["gpu_ns"],
        "exposed_ns": one["exposed_ns"],
    }


@dataclass(frozen=True)
class ChangedBox:
    """A box of the flame graph, and what it is of."""

    box: Box
    first_ns: float
    this_ns: float

    @property
    def strength(self) -> float:
        """Of its colour, up to 1."""
        if not self.first_ns:
            return 1.0
        return min(1.0, abs(self.this_ns - self.first_ns) / self.first_ns / _FULL)


def flame_levels(rows: list[ChangedModule]) -> list[list[ChangedBox]]:
    """Levels from the top. A module is as wide as its longer time, so that what only one run has
    can be seen.
    """
    sides: dict[tuple[str, ...], tuple[float, float]] = {}
    totals: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        path = (row["phase"], *filter(None, row["path"].split(".")))
        sides[path] = row["first"]["gpu_ns"], row["this"]["gpu_ns"]
        for depth in range(1, len(path) + 1):
            total = totals.setdefault(path[:depth], [0.0, 0.0])
            for side, value in enumerate(sides[path]):
                total[side] += value
    return [
        [ChangedBox(box, *totals[box.parts]) for box in level]
        for level in boxes({path: max(both) for path, both in sides.items()})
    ]
