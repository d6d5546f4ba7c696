"""The page's picture of memory over time: steps of an SVG, and what was live at the peak."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from phantora_py.data import RunData
from phantora_py.report.iterations import Iterations, Nanoseconds
from phantora_py.report.memory import memory_peak, memory_series
from sim_server.deadlock import ranges_text

Places = npt.NDArray[np.floating[Any]]

_WIDTH, _HEIGHT = 1000, 160
# Lines that can be told apart, and rows that are read (assumed).
_LINES = 5
_ROWS = 40
# Steps of one line: more than the picture has pixels are not seen.
_MOST_STEPS = 2 * _WIDTH


def memory_chart(data: RunData, iterations: Iterations) -> dict[str, Any]:
    """Lines of the fullest ranks, and the peak of the very fullest; None without allocations."""
    series = memory_series(data)
    if not series:
        return {"memory_chart": None}
    begin_ns = int(min(one.times_ns[0] for one in series))
    last_ns = int(max(one.times_ns[-1] for one in series))
    spans_end_ns = int(data.spans["end_ns"].max()) if len(data.spans) else 0
    length_ns = max(last_ns, spans_end_ns) - begin_ns or 1
    peak = memory_peak(data, series[0])
    scale = _HEIGHT / (1.05 * series[0].peak_bytes or 1)
    ranks = [rank for one in series for rank in one.ranks]
    several_devices = len(set(ranks)) < len(ranks)

    def places(times_ns: Nanoseconds) -> Places:
        return (times_ns - begin_ns) * (_WIDTH / length_ns)

    chart = {
        "width": _WIDTH,
        "height": _HEIGHT,
        "begin_ns": begin_ns,
        "end_ns": begin_ns + length_ns,
        "lines": [
            {
                "ranks": ranges_text(one.ranks),
                "device": one.device if several_devices else None,
                "peak_bytes": one.peak_bytes,
                "path": _path(places(one.times_ns), one.in_use_bytes * scale),
            }
            for one in series[:_LINES]
        ],
        "left_out": sum(len(one.ranks) for one in series[_LINES:]),
        "marks": [f"{at:.2f}" for at in places(iterations.boundaries_ns).tolist()],
        "peak": peak,
        "rows": peak.rows[:_ROWS],
        "rows_left_out": len(peak.rows[_ROWS:]),
    }
    return {"memory_chart": chart}


def _path(places: Places, heights: Places) -> str:
    """Steps to the right end. Of those that fall on one pixel the highest is kept."""
    if len(places) > _MOST_STEPS:
        pixels = np.round(places)
        first = np.flatnonzero(np.diff(pixels, prepend=-1))
        places, heights = pixels[first], np.maximum.reduceat(heights, first)
    steps = zip(places.tolist(), (_HEIGHT - heights).tolist(), strict=True)
    drawn = "".join(f"H{at:.2f}V{height:.2f}" for at, height in steps)
    return f"M{places[0]:.2f} {_HEIGHT}{drawn}H{_WIDTH}"
