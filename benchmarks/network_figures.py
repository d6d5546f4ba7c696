"""Draw bus bandwidth over size: the model's curves and the measured points, one chart a layout.

    python benchmarks/network_figures.py SINGLE_NODE.csv SEVERAL_NODES.csv -o FOLDER

Writes one SVG file for each measured system of benchmarks/network_systems.py, and one for each
built-in cluster that nobody has measured, with curves only. They hold the measured points, which
are others' data: keep them out of this repository.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import simpy
from network_systems import (
    LARGEST_BYTES,
    SEVERAL_NODES,
    SINGLE_NODE,
    SMALLEST_BYTES,
    Case,
    System,
    cluster_of,
    read_cases,
)

from phantora_py.bench.operations import bus_factor
from sim_server.cluster import builtin_names, load_cluster
from sim_server.collectives import Communication
from sim_server.records import NcclOpKind
from sim_server.records.operations import DATA_TYPE_BYTES, PER_RANK_KINDS, Operation

_KINDS = (
    NcclOpKind.ALL_REDUCE,
    NcclOpKind.ALL_GATHER,
    NcclOpKind.REDUCE_SCATTER,
    NcclOpKind.ALL_TO_ALL,
)
_COLOURS = {
    NcclOpKind.ALL_REDUCE: "#1f6feb",
    NcclOpKind.ALL_GATHER: "#2a9d3a",
    NcclOpKind.REDUCE_SCATTER: "#c2571a",
    NcclOpKind.ALL_TO_ALL: "#8a3ab9",
}
_HALF, _FLOAT = 6, 7
_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 420.0, 300.0, 60.0, 50.0, 80.0
_LEAST_GB_PER_S = 1e-3


class Point(NamedTuple):
    """Bus bandwidth of one size."""

    size_bytes: int
    busbw_gb_per_s: float


Series = Mapping[NcclOpKind, Sequence[Point]]


class Chart(NamedTuple):
    """One layout of one system."""

    title: str
    measured: Series
    simulated: Series


def _busbw(kind: NcclOpKind, size_bytes: int, ranks: int, time_ns: float) -> Point:
    return Point(size_bytes, size_bytes / time_ns * bus_factor(kind, ranks))


def simulate(
    cluster: str, nodes: int, ranks: int, dtype: int, kinds: Sequence[NcclOpKind]
) -> Series:
    """The model's curves."""
    env = simpy.Environment()
    communication = Communication(env, load_cluster(cluster), nodes, ranks // nodes)
    curves: dict[NcclOpKind, list[Point]] = defaultdict(list)
    for kind in kinds:
        size_bytes = SMALLEST_BYTES
        while size_bytes <= LARGEST_BYTES:
            parts = ranks if kind in PER_RANK_KINDS else 1
            if (count := size_bytes // DATA_TYPE_BYTES[dtype] // parts) > 0:
                start_ns = env.now
                env.run(communication.start(Operation(kind, count, dtype, tuple(range(ranks)))))
                curves[kind].append(_busbw(kind, size_bytes, ranks, env.now - start_ns))
            size_bytes *= 2
    return curves


def charts_of(system: System, cases: Mapping[Case, float]) -> Iterator[Chart]:
    """One for each number of GPUs; of data types the one with more points."""
    by_gpus: dict[int, dict[Case, float]] = defaultdict(dict)
    for case, time_us in cases.items():
        if case.system == system and case.operation.dtype in (_HALF, _FLOAT):
            by_gpus[case.gpus][case] = time_us
    for gpus, found in sorted(by_gpus.items()):
        measured: dict[NcclOpKind, list[Point]] = defaultdict(list)
        for case, time_us in found.items():
            kind = case.operation.kind
            measured[kind].append(_busbw(kind, case.size_bytes, gpus, time_us * 1e3))
        case = next(iter(found))
        kinds = [kind for kind in _KINDS if kind in measured]
        curves = simulate(cluster_of(system), case.nodes, gpus, case.operation.dtype, kinds)
        role = system.role(gpus).value
        yield Chart(f"{gpus} GPUs, {_nodes_text(case.nodes)} ({role})", measured, curves)


def _nodes_text(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"


def draw(title: str, charts: Sequence[Chart]) -> Iterator[str]:
    """Lines of one SVG file."""
    width = _LEFT + len(charts) * (_WIDTH + _GAP)
    height = _TOP + _HEIGHT + 90
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        'font-family="sans-serif" font-size="12">'
    )
    yield f'<rect width="{width:.0f}" height="{height:.0f}" fill="#fff"/>'
    yield (
        f'<text x="{_LEFT:.0f}" y="20" font-size="15">{escape(title)}: bus bandwidth (GB/s) over '
        "size; lines: model, points: measured</text>"
    )
    for index, chart in enumerate(charts):
        yield f'<g transform="translate({_LEFT + index * (_WIDTH + _GAP):.0f},{_TOP:.0f})">'
        yield from _draw_chart(chart)
        yield "</g>"
    for index, kind in enumerate(_KINDS):
        x, y = _LEFT + 130 * index, height - 20
        yield f'<circle cx="{x:.0f}" cy="{y - 4:.0f}" r="4" fill="{_COLOURS[kind]}"/>'
        yield f'<text x="{x + 10:.0f}" y="{y:.0f}">{kind.name.lower()}</text>'
    yield "</svg>"


def _draw_chart(chart: Chart) -> Iterator[str]:
    points = [
        p for series in (chart.measured, chart.simulated) for one in series.values() for p in one
    ]
    top = math.ceil(math.log10(max(point.busbw_gb_per_s for point in points)))
    least = min(point.busbw_gb_per_s for point in points)
    bottom = math.floor(math.log10(max(least, _LEAST_GB_PER_S)))
    first, last = math.log2(SMALLEST_BYTES), math.log2(LARGEST_BYTES)

    def place(point: Point) -> tuple[float, float]:
        x = (math.log2(point.size_bytes) - first) / (last - first) * _WIDTH
        y = (top - math.log10(max(point.busbw_gb_per_s, _LEAST_GB_PER_S))) / (top - bottom)
        return x, y * _HEIGHT

    yield f'<text y="-8">{escape(chart.title)}</text>'
    yield f'<rect width="{_WIDTH:.0f}" height="{_HEIGHT:.0f}" fill="none" stroke="#888"/>'
    for exponent in range(bottom, top + 1):
        y = (top - exponent) / (top - bottom) * _HEIGHT
        yield f'<line x2="{_WIDTH:.0f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text x="-8" y="{y + 4:.1f}" text-anchor="end">{10.0**exponent:g}</text>'
    for power, label in ((10, "1K"), (15, "32K"), (20, "1M"), (25, "32M"), (30, "1G")):
        x = (power - first) / (last - first) * _WIDTH
        yield f'<text x="{x:.1f}" y="{_HEIGHT + 18:.0f}" text-anchor="middle">{label}</text>'
    for kind, curve in chart.simulated.items():
        corners = " ".join("{:.1f},{:.1f}".format(*place(point)) for point in curve)
        yield f'<polyline points="{corners}" fill="none" stroke="{_COLOURS[kind]}"/>'
    for kind, dots in chart.measured.items():
        for dot in dots:
            x, y = place(dot)
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{_COLOURS[kind]}"/>'


def main() -> int:
    """Write the files; exit code 2 for a wrong command line."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, nargs="+", help="CSV files of nccl-tests results")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the files")
    arguments = parser.parse_args()
    systems = SINGLE_NODE + SEVERAL_NODES
    cases, _ = read_cases(arguments.results, systems)
    if not cases:
        print("no row of the files is of a known system and operation", file=sys.stderr)
        return 2
    arguments.output.mkdir(parents=True, exist_ok=True)
    pictures = {system.name: list(charts_of(system, cases)) for system in systems}
    for name in set(builtin_names()) - {system.cluster for system in systems}:
        gpus = load_cluster(name).gpus_per_node
        curves = simulate(name, 1, gpus, _HALF, _KINDS)
        pictures[f"{name} (not measured)"] = [Chart(f"{gpus} GPUs, 1 node", {}, curves)]
    for name, charts in pictures.items():
        if charts:
            path = arguments.output / f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}.svg"
            path.write_text("\n".join(draw(name, charts)) + "\n", encoding="utf-8")
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
