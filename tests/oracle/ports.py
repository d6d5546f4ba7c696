"""The oracle's network: a port of each rank in each direction, shared fairly. In exact fractions.

Written from docs/network.md, for one node and a collective library that costs nothing: a collective
takes the latency of its steps, then its flows run from port to port.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from machine import LINK_LATENCY_NS

from sim_server.records import NcclOpKind

LONE_COPY_NS = 2_000
STEP_NS = 2 * LINK_LATENCY_NS
"""From a GPU to the switch and on to another."""


@dataclass(eq=False)
class Flow:
    """Bytes from one rank's port to another's."""

    operation: int
    source: int
    target: int
    left_bytes: Fraction
    rate: Fraction = Fraction(0)


@dataclass
class Transport:
    """How an operation is carried out: wait, then move."""

    delay_ns: int
    flows: list[tuple[int, int, Fraction]]


def transport(kind: NcclOpKind, ranks: tuple[int, ...], root: int, count: int) -> Transport:
    """The steps and flows of an operation of `count` bytes. `ranks`: source and target of a send,
    else the members; `root` is a position in them.
    """
    size = len(set(ranks))
    if count == 0 or size == 1:
        return Transport(LONE_COPY_NS + count if count else 0, [])
    ring = list(zip(ranks, ranks[1:] + ranks[:1], strict=True))
    whole = Fraction(count)
    if kind is NcclOpKind.SEND:
        return Transport(STEP_NS, [(*ring[0], whole)])
    if kind is NcclOpKind.ALL_REDUCE:
        share = 2 * whole * (size - 1) / size
        return Transport(2 * (size - 1) * STEP_NS, [(*edge, share) for edge in ring])
    if kind in (NcclOpKind.ALL_GATHER, NcclOpKind.REDUCE_SCATTER):
        share = whole * (size - 1)  # count is per rank
        return Transport((size - 1) * STEP_NS, [(*edge, share) for edge in ring])
    if kind in (NcclOpKind.BROADCAST, NcclOpKind.REDUCE):
        # Along the ring away from the root, or towards it.
        end = ranks[root]
        chain = [edge for edge in ring if edge[1 if kind is NcclOpKind.BROADCAST else 0] != end]
        return Transport((size - 1) * STEP_NS, [(*edge, whole) for edge in chain])
    others = [rank for rank in ranks if rank != ranks[root]]
    if kind is NcclOpKind.GATHER:
        pairs = [(other, ranks[root]) for other in others]
    elif kind is NcclOpKind.SCATTER:
        pairs = [(ranks[root], other) for other in others]
    else:
        pairs = [(one, other) for one in ranks for other in ranks if one != other]
    return Transport(STEP_NS, [(*pair, whole) for pair in pairs])


@dataclass
class Network:
    """The operations under way."""

    waiting: list[tuple[int, int, Transport]] = field(default_factory=list)
    """Time, operation, what happens then."""
    flows: list[Flow] = field(default_factory=list)
    since_ns: int = 0

    def begin(self, operation: int, plan: Transport, now_ns: int) -> None:
        """All participants have arrived."""
        self.waiting.append((now_ns + plan.delay_ns, operation, plan))

    def next_ns(self) -> int | None:
        """When flows start or end."""
        times = [time_ns for time_ns, _, _ in self.waiting]
        times += [self.since_ns + ceil(flow.left_bytes / flow.rate) for flow in self.flows]
        return min(times, default=None)

    def move_to(self, now_ns: int) -> list[int]:
        """What happens at this time, all at once. Returns the operations that end, in order."""
        for flow in self.flows:
            flow.left_bytes -= flow.rate * (now_ns - self.since_ns)
        self.since_ns = now_ns
        ended = {flow.operation for flow in self.flows if flow.left_bytes <= 0}
        self.flows = [flow for flow in self.flows if flow.left_bytes > 0]
        for _, operation, plan in (one for one in self.waiting if one[0] == now_ns):
            self.flows += [Flow(operation, *flow) for flow in plan.flows]
            ended.add(operation)  # unless it has flows
        self.waiting = [one for one in self.waiting if one[0] != now_ns]
        self.share()
        return sorted(ended - {flow.operation for flow in self.flows})

    def share(self) -> None:
        """New rates."""
        fair_rates(self.flows)


def fair_rates(flows: list[Flow]) -> None:
    """Rates in bytes/ns: all grow together; those through a full port stop."""
    ports: dict[tuple[str, int], list[Flow]] = {}
    for flow in flows:
        flow.rate = Fraction(0)
        ports.setdefault(("out", flow.source), []).append(flow)
        ports.setdefault(("in", flow.target), []).append(flow)
    growing = list(flows)
    while growing:
        more = min(
            (1 - sum((flow.rate for flow in port), Fraction())) / sum(f in growing for f in port)
            for port in ports.values()
            if any(flow in growing for flow in port)
        )
        for flow in growing:
            flow.rate += more
        full = [flow for port in ports.values() if sum(f.rate for f in port) == 1 for flow in port]
        growing = [flow for flow in growing if flow not in full]
