"""A cluster's links as an SVG picture: GPUs below, switches above, thicker lines for more capacity.

Knows names of vertices and links only, so that it draws every kind of fabric.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from math import log2
from xml.sax.saxutils import escape

from sim_server.errors import UsageError
from sim_server.network import Link

_MOST_VERTICES = 3000
_WIDTH, _LAYER, _MARGIN, _RADIUS = 1200.0, 110.0, 60.0, 5.0
_BELOW_NICS = ("gpu", "inside")
_INSIDE = ("nvswitch", "host", "memory", "pcie")
_COLOURS = {"nic": "#2a6f97", "inside": "#9a6a1f"}
_GPU_COLOURS = ("#4a7a2c", "#b23a48", "#4059ad", "#8a5a00", "#5b5b5b")
_SWITCH_COLOUR = "#6b4c9a"


def draw(links: Sequence[Link], title: str, models: Mapping[str, str]) -> str:
    """The picture; `models` are those of the GPUs, by name, which differ in colour.

    Raises: UsageError when there is too much to see anything.
    """
    layers = _layers(links)
    count = sum(map(len, layers.values()))
    if count > _MOST_VERTICES:
        raise UsageError(
            f"{count:,} GPUs, NICs and switches are too many to draw; show fewer, with --nodes"
        )
    places = _places(layers)
    height = 2 * _MARGIN + _LAYER * (len(layers) - 1)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {height:.0f}" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<text x="{_MARGIN:.0f}" y="20">{escape(title)}</text>',
        *_lines(links, places),
        *_vertices(layers, places, models),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _kind(vertex: str) -> str:
    word = vertex.split(maxsplit=1)[0]
    return "inside" if word in _INSIDE else word


def _layers(links: Sequence[Link]) -> dict[str, list[str]]:
    """Vertices by layer, from below: GPUs, what joins them, NICs, then switches by distance."""
    neighbours: dict[str, list[str]] = defaultdict(list)
    for link in links:
        neighbours[link.source].append(link.target)
    distances = {vertex: 0 for vertex in neighbours if _kind(vertex) == "nic"}
    todo = deque(distances)
    while todo:
        here = todo.popleft()
        for one in neighbours[here]:
            if one not in distances and _kind(one) not in _BELOW_NICS:
                distances[one] = distances[here] + 1
                todo.append(one)
    layers: dict[str, list[str]] = {name: [] for name in (*_BELOW_NICS, "nic")}
    farthest = max(distances.values(), default=0)
    layers |= {f"switch {distance}": [] for distance in range(1, farthest + 1)}
    for vertex in neighbours:
        kind = _kind(vertex)
        layers[kind if kind in layers else f"switch {distances[vertex]}"].append(vertex)
    return {name: vertices for name, vertices in layers.items() if vertices}


def _places(layers: Mapping[str, Sequence[str]]) -> dict[str, tuple[float, float]]:
    places = {}
    for level, vertices in enumerate(layers.values()):
        y = _MARGIN + _LAYER * (len(layers) - 1 - level)
        step = (_WIDTH - 2 * _MARGIN) / len(vertices)
        for index, vertex in enumerate(vertices):
            places[vertex] = (_MARGIN + step * (index + 0.5), y)
    return places


def _lines(links: Sequence[Link], places: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    """One line for the two directions; those within a layer are bent upwards."""
    least = min(link.capacity_bytes_per_s for link in links)
    drawn: set[frozenset[str]] = set()
    for link in links:
        ends = frozenset((link.source, link.target))
        if ends in drawn:
            continue
        drawn.add(ends)
        (x1, y1), (x2, y2) = places[link.source], places[link.target]
        width = 0.6 + 0.6 * log2(link.capacity_bytes_per_s / least)
        bend = -min(abs(x2 - x1) / 4, 0.4 * _LAYER) if y1 == y2 else 0.0
        yield (
            f'<path d="M{x1:.1f},{y1:.1f} Q{(x1 + x2) / 2:.1f},{(y1 + y2) / 2 + bend:.1f} '
            f'{x2:.1f},{y2:.1f}" fill="none" stroke="#888" stroke-opacity="0.6" '
            f'stroke-width="{width:.2f}"><title>{escape(link.source)} - {escape(link.target)}: '
            f"{link.capacity_bytes_per_s / 1e9:.4g} GB/s, {link.latency_ns} ns</title></path>"
        )


def _vertices(
    layers: Mapping[str, Sequence[str]],
    places: Mapping[str, tuple[float, float]],
    models: Mapping[str, str],
) -> Iterator[str]:
    kinds = list(dict.fromkeys(models.values()))
    for vertices in layers.values():
        for vertex in vertices:
            x, y = places[vertex]
            colour, name = _COLOURS.get(_kind(vertex), _SWITCH_COLOUR), vertex
            if vertex in models:
                colour = _GPU_COLOURS[kinds.index(models[vertex]) % len(_GPU_COLOURS)]
                name = f"{vertex}: {models[vertex]}"
            yield (
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS:.0f}" fill="{colour}">'
                f"<title>{escape(name)}</title></circle>"
            )
        x, y = places[vertices[0]]
        label = f"{vertices[0]} ... {vertices[-1]}" if len(vertices) > 1 else vertices[0]
        if vertices[0] in models:
            label += f" ({', '.join(kinds)})"
        yield f'<text x="{_MARGIN:.0f}" y="{y + 20:.1f}">{escape(label)}</text>'
