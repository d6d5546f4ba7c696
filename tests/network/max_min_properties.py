"""What makes rates max-min fair, as a check that any solver's answer can be put to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from hypothesis import strategies as st

Solver = Callable[..., list[float]]

_CLOSE = 1e-9


def find_fault(
    capacities: Sequence[float],
    paths: Sequence[Sequence[int]],
    caps: Sequence[float],
    rates: Sequence[float],
) -> str | None:
    """What is wrong with these rates; None when nothing is."""
    on_link: dict[int, list[int]] = {}
    for flow, path in enumerate(paths):
        for link in path:
            on_link.setdefault(link, []).append(flow)
    load = {link: sum(rates[flow] for flow in flows) for link, flows in on_link.items()}
    for link, bytes_per_s in load.items():
        if bytes_per_s > capacities[link] * (1 + _CLOSE):
            return f"link {link} is over its capacity"
    for flow, (path, cap, rate) in enumerate(zip(paths, caps, rates, strict=True)):
        if rate > cap * (1 + _CLOSE):
            return f"flow {flow} is over its cap"
        if rate >= cap * (1 - _CLOSE):
            continue
        if not any(
            load[link] >= capacities[link] * (1 - _CLOSE)
            and all(rates[other] <= rate * (1 + _CLOSE) for other in on_link[link])
            for link in path
        ):
            return f"flow {flow} has no full link on which it is among the fastest"
    return None


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[float], list[list[int]], list[float]]:
    """Capacities, paths and caps of up to 12 flows on up to 6 links."""
    links = draw(st.integers(1, 6))
    capacity = st.integers(1, 1000).map(float)
    path = st.lists(st.integers(0, links - 1), min_size=1, max_size=links, unique=True)
    paths = draw(st.lists(path, min_size=1, max_size=12))
    cap = st.one_of(st.just(inf), st.integers(1, 1000).map(float))
    return (
        draw(st.lists(capacity, min_size=links, max_size=links)),
        paths,
        draw(st.lists(cap, min_size=len(paths), max_size=len(paths))),
    )


@st.composite
def counted_problems(
    draw: st.DrawFn,
) -> tuple[list[float], list[list[int]], list[float], list[list[int]]]:
    """Problems and how many flows each of theirs puts on the links of its path."""
    capacities, paths, caps = draw(problems())
    counts = [
        draw(st.lists(st.integers(1, 7), min_size=len(one), max_size=len(one))) for one in paths
    ]
    return capacities, paths, caps, counts
