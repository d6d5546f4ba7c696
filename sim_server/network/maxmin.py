"""Max-min fair rates by progressive filling: a pure function, the definition.

Flows under way get theirs from C++ (csrc/network/max_min.cc), which tests hold to this, bit by bit.

All rates grow together from zero; a flow stops growing when it reaches its own cap or when a link
of its path is full. The result is the only allocation in which no flow can gain without a loss to
one that has no more than it. Every flow then has a reason for its rate: its cap, or a full link on
which no flow is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from math import inf

# Links that fill up within this relative distance of each other fill up together. Far above the
# rounding of a few hundred additions (1e-14), far below any difference that a cluster description
# can express.
_TOGETHER = 1 + 1e-12


def max_min_rates(
    capacities: Sequence[float],
    paths: Sequence[Sequence[int]],
    caps: Sequence[float],
    counts: Sequence[Sequence[int]] | None = None,
) -> list[float]:
    """Rate of each flow.

    `capacities` are by link; `paths[i]` are the distinct links of flow i and `caps[i]` its own
    limit (`math.inf` for none; an empty path needs a finite one). With `counts`, a flow stands for
    several alike ones: `counts[i]` says how many of them each link of its path carries.
    Units: any one unit of rate for all three; bytes per second by those who call it.
    """
    rates = [0.0] * len(paths)
    on_link: dict[int, list[int]] = {}
    for flow, path in enumerate(paths):
        assert path or caps[flow] < inf, "a flow without links and without a cap has no rate"
        for link in path:
            on_link.setdefault(link, []).append(flow)
    left = {link: float(capacities[link]) for link in on_link}
    growing_on = {link: len(flows) for link, flows in on_link.items()}
    if counts is not None:
        growing_on = _flows_on_link(paths, counts)
    by_cap = sorted(range(len(paths)), key=caps.__getitem__, reverse=True)
    growing = [True] * len(paths)

    def stop(flow: int, rate: float) -> None:
        growing[flow] = False
        rates[flow] = rate
        on_path = repeat(1) if counts is None else counts[flow]
        for link, count in zip(paths[flow], on_path):  # noqa: B905 - one of them has no end
            left[link] = max(left[link] - rate * count, 0.0)
            growing_on[link] -= count
            if growing_on[link] == 0:
                del left[link]

    while by_cap:
        level = min((room / growing_on[link] for link, room in left.items()), default=inf)
        if caps[by_cap[-1]] <= level:
            while by_cap and caps[by_cap[-1]] <= level:
                flow = by_cap.pop()
                if growing[flow]:
                    stop(flow, float(caps[flow]))
        else:
            full_at = level * _TOGETHER
            full = [link for link, room in left.items() if room / growing_on[link] <= full_at]
            for link in full:
                for flow in on_link[link]:
                    if growing[flow]:
                        stop(flow, level)
        while by_cap and not growing[by_cap[-1]]:
            by_cap.pop()
    return rates


def _flows_on_link(
    paths: Sequence[Sequence[int]], counts: Sequence[Sequence[int]]
) -> dict[int, int]:
    flows: dict[int, int] = {}
    for path, on_path in zip(paths, counts, strict=True):
        for link, count in zip(path, on_path, strict=True):
            flows[link] = flows.get(link, 0) + count
    return flows
