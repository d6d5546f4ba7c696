"""The runs of a sweep as a drawing: time against memory, the Pareto front filled. SVG, by hand: it
is one chart, and opens everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import floor, log10
from pathlib import Path
from typing import Any

from phantora_py.sweep.pareto import Costs, costs_of
from phantora_py.text.units import duration_text, size_text
from sim_server.files.output_file import write_file

# Units of the drawing; the legend is to the right of the chart.
_LEFT, _TOP, _WIDTH, _HEIGHT = 70, 20, 520, 360
_LEGEND = _LEFT + _WIDTH + 30
_LINE = 18
_STYLE = """
text { font: 12px sans-serif; fill: #222; } .quiet { fill: #777; } line { stroke: #ddd; }
circle { stroke: #1f6feb; stroke-width: 1.5; fill: #fff; } .front { fill: #1f6feb; }
.front + text { fill: #fff; } .number { font-size: 10px; text-anchor: middle; }
svg { background: #fff; }
@media (prefers-color-scheme: dark) {
  svg { background: #161616; } text { fill: #ddd; } line { stroke: #333; } circle { fill: #161616; }
  .quiet { fill: #999; } .front { fill: #1f6feb; }
}
"""


def write_drawing(path: Path, runs: Sequence[Mapping[str, Any]]) -> None:
    """Draws the runs that finished, of which there is one at least.

    Raises: UsageError if `path` cannot be written.
    """
    points = [(run, costs) for run in runs if (costs := costs_of(run)) is not None]
    write_file(path, ("\n".join(_lines(points)) + "\n").encode(), "--svg")


def _lines(points: Sequence[tuple[Mapping[str, Any], Costs]]) -> Iterator[str]:
    height = max(_TOP + _HEIGHT + 50, _TOP + _LINE * (len(points) + 2))
    longest = max(len(_label(run)) for run, _ in points)
    width = _LEGEND + 40 + 7 * longest
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
    yield f"<style>{_STYLE}</style>"
    most_ns = max(costs[0] for _, costs in points) or 1.0
    most_bytes = max(costs[1] for _, costs in points) or 1.0
    x_scale = _WIDTH / (1.1 * most_ns)
    y_scale = _HEIGHT / (1.1 * most_bytes)
    bottom, per = _TOP + _HEIGHT, "a unit of work" if _by_work(points) else "an iteration"
    for tick in _ticks(1.1 * most_ns):
        x = _LEFT + tick * x_scale
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}"/>'
        yield _text(x, bottom + 18, duration_text(tick) if tick else "0", "middle")
    for tick in _ticks(1.1 * most_bytes / 2**30):
        y = bottom - tick * 2**30 * y_scale
        yield f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield _text(_LEFT - 8, y + 4, size_text(tick * 2**30) if tick else "0", "end")
    yield _text(_LEFT + _WIDTH, bottom + 38, f"virtual time of {per}", "end")
    yield _text(_LEFT, _TOP - 6, "peak memory of a GPU", "start")
    for number, (run, (time_ns, size_bytes, _)) in enumerate(points, 1):
        x, y = _LEFT + time_ns * x_scale, bottom - size_bytes * y_scale
        kind = "front" if run["pareto"] else "other"
        yield f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="9"/>'
        yield f'<text class="number" x="{x:.1f}" y="{y + 3.5:.1f}">{number}</text>'
        line = _TOP + _LINE * number
        yield f'<circle class="{kind}" cx="{_LEGEND}" cy="{line - 4}" r="8"/>'
        yield f'<text class="number" x="{_LEGEND}" y="{line - 0.5}">{number}</text>'
        yield _text(_LEGEND + 16, line, _label(run), "start")
    line = _TOP + _LINE * (len(points) + 1)
    yield _text(_LEGEND - 8, line, "filled: Pareto front", "start", quiet=True)
    yield "</svg>"


def _by_work(points: Sequence[tuple[Mapping[str, Any], Costs]]) -> bool:
    return any(run["throughput"] for run, _ in points)


def _label(run: Mapping[str, Any]) -> str:
    return f"{run['name']} ({run['ranks']} {run['gpu']})"


def _text(x: float, y: float, text: str, anchor: str, quiet: bool = False) -> str:
    kind = ' class="quiet"' if quiet else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _ticks(most: float) -> list[float]:
    """Round numbers from 0 to `most`, four to ten of them."""
    power = 10.0 ** floor(log10(most / 4))
    step = power * max(factor for factor in (1, 2, 5) if factor * power <= most / 4)
    return [step * number for number in range(floor(most / step) + 1)]
