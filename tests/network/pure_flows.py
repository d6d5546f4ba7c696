"""Flows in time from the definition alone: every rate anew at every change, by the pure solver."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import ceil, inf

from sim_server.network import Demand, max_min_rates

Start = tuple[Hashable, int, Demand]
Change = tuple[int, int, float]
"""Of a link's capacity: when, which, to what."""

# As kForgiven in csrc/network/flow_set.cc.
_FORGIVEN = 2.0**-42


class _Flow:
    def __init__(self, key: Hashable, demand: Demand) -> None:
        self.key = key
        self.demand = demand
        self.left_bytes = float(demand.size_bytes)
        self.rate = 0.0
        self.since_ns = 0
        self.end_ns: float = inf

    def set_rate(self, rate: float, now_ns: int) -> None:
        if rate == self.rate:
            return
        self.left_bytes -= self.rate * (now_ns - self.since_ns) / 1e9
        self.rate, self.since_ns, self.end_ns = rate, now_ns, inf
        if rate > 0:
            left_bytes = self.left_bytes - self.demand.size_bytes * _FORGIVEN
            self.end_ns = now_ns + max(ceil(left_bytes / rate * 1e9), 1)


def pure_ends_ns(
    starts: Sequence[Start], capacities: Sequence[float], changes: Sequence[Change] = ()
) -> Mapping[Hashable, int]:
    """End of every flow that ends."""
    ends_ns: dict[Hashable, int] = {}
    room, running = list(capacities), list[_Flow]()
    changing = sorted(
        {time_ns for _, time_ns, _ in starts} | {time_ns for time_ns, _, _ in changes}
    )
    while changing or any(flow.end_ns < inf for flow in running):
        next_end_ns = min((flow.end_ns for flow in running), default=inf)
        now_ns = int(min(next_end_ns, changing[0] if changing else inf))
        ends_ns |= {flow.key: now_ns for flow in running if flow.end_ns == now_ns}
        running = [flow for flow in running if flow.end_ns > now_ns]
        running += [_Flow(key, demand) for key, time_ns, demand in starts if time_ns == now_ns]
        for _, link, capacity in (one for one in changes if one[0] == now_ns):
            room[link] = capacity
        changing = [time_ns for time_ns in changing if time_ns > now_ns]
        for together in _connected(running):
            paths = [flow.demand.path for flow in together]
            rates = max_min_rates(room, paths, [flow.demand.cap_bytes_per_s for flow in together])
            for flow, rate in zip(together, rates, strict=True):
                flow.set_rate(rate, now_ns)
    return ends_ns


def _connected(flows: Sequence[_Flow]) -> Iterator[list[_Flow]]:
    """Flows that share links, however indirectly."""
    groups: list[tuple[set[int], list[_Flow]]] = []
    for flow in flows:
        links, members = set(flow.demand.path), [flow]
        apart = []
        for group in groups:
            if group[0].isdisjoint(links):
                apart.append(group)
            else:
                links |= group[0]
                members += group[1]
        groups = [*apart, (links, members)]
    return (members for _, members in groups)
