"""The page's heat strips of links: how busy each class was in the course of an iteration."""

from __future__ import annotations

from typing import Any

import numpy as np

from phantora_py.data import RunData
from phantora_py.report.links import Shares, link_use
from phantora_py.report.window import Window

# Columns of a strip, and shades that can be told apart (assumed).
_SLOTS = 400
_SHADES = 20


def link_strips(data: RunData, window: Window) -> dict[str, Any]:
    """Of each class the mean of its links and the busiest one."""
    return {
        "links": [
            {
                "name": use.name,
                "most": use.most,
                "strips": [
                    {"what": what, "mean": float(shares.mean()), "runs": _runs(shares)}
                    for what, shares in (("all", use.mean), ("the busiest", use.busiest))
                ],
            }
            for use in link_use(data, window, _SLOTS)
        ],
        "link_slots": _SLOTS,
        "link_slot_ns": (window.end_ns - window.begin_ns) / _SLOTS,
        "has_links": len(data.link_use) > 0,
    }


def _runs(shares: Shares) -> list[tuple[int, int, float]]:
    """Neighbours of one shade together: first column, columns, share; unused ones are left out."""
    shades = np.ceil(np.minimum(shares, 1.0) * _SHADES).astype(int)
    first = np.flatnonzero(np.diff(shades, prepend=-1))
    lengths = np.diff(np.append(first, len(shades)))
    return [
        (start, length, shades[start] / _SHADES)
        for start, length in zip(first.tolist(), lengths.tolist(), strict=True)
        if shades[start]
    ]
