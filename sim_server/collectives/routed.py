"""An algorithm's flows on the links of a topology, and what follows from them for any size.

What follows is alike for groups of one pattern (`Topology.pattern`), which are one for the choice
of an algorithm: only the routes of the chosen one are found for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import repeat
from typing import NamedTuple

from sim_server.collectives.shape import Shape, Switch
from sim_server.collectives.tuning import Cost, Part
from sim_server.network import Fold, Gpu, Topology


class Route(NamedTuple):
    """A flow of a shape, or a class of flows, on the links."""

    path: tuple[int, ...]
    share: float
    crosses: bool
    """Whether it leaves its node."""
    flows_on_link: tuple[int, ...] | None = None
    flows: int = 1


class Routes(NamedTuple):
    """Those of all flows of a shape."""

    flows: list[Route]
    fold: Fold | None = None
    """Whose classes they are, if they are classes."""


class _Load(NamedTuple):
    """What flows do to links, inside a node and (True) between nodes."""

    seconds_per_byte: dict[bool, float]
    """Of the buffer, on the link that takes longest."""
    latency_ns: dict[bool, int]
    """Of the longest route."""


class Routed:
    """A shape with its routes and what follows from them for any size and protocol.

    Routes are found when they are asked for: not for algorithms that are out of the question.
    """

    def __init__(
        self, shape: Shape, gpus: Mapping[int, Gpu], topology: Topology, *, folded: bool = False
    ) -> None:
        """`gpus` are those of the ranks that the shape names. `folded`: its flows are the exchange
        of all of them, as classes.
        """
        self.shape = shape
        self.folded = folded
        self._topology = topology
        self._gpus = gpus

    @cached_property
    def crosses(self) -> bool:
        """Whether a flow leaves its node."""
        return any(route.crosses for route in self._routes.flows)

    def routes(self, gpus: Mapping[int, Gpu]) -> Routes:
        """Of ranks on GPUs of the same pattern."""
        return self._routes if gpus == self._gpus else self._find_routes(gpus)

    @cached_property
    def _routes(self) -> Routes:
        return self._find_routes(self._gpus)

    def _find_routes(self, gpus: Mapping[int, Gpu]) -> Routes:
        if not self.folded:
            return Routes(_routes(self.shape, gpus, self._topology))
        fold = Fold(self._topology, list(gpus.values()))
        share = 1 / len(gpus)
        flows = [
            Route(
                one.path,
                share,
                one.source.node != one.destination.node,
                one.flows_on_link,
                one.flows,
            )
            for one in fold.classes
        ]
        return Routes(flows, fold)

    @cached_property
    def _load(self) -> _Load:
        seconds_per_byte = {False: 0.0, True: 0.0}
        longest_ns = {False: 0, True: 0}
        load: dict[int, float] = {}
        links = self._topology.links
        for path, share, crosses, flows_on_link, _ in self._routes.flows:
            latency_ns, most_seconds = 0, seconds_per_byte[crosses]
            for link, flows in zip(path, flows_on_link or repeat(1), strict=False):
                load[link] = share_of_link = load.get(link, 0.0) + flows * share
                _, _, capacity_bytes_per_s, link_latency_ns = links[link]
                seconds = share_of_link / capacity_bytes_per_s
                most_seconds = max(most_seconds, seconds)
                latency_ns += link_latency_ns
            seconds_per_byte[crosses] = most_seconds
            longest_ns[crosses] = max(longest_ns[crosses], latency_ns)
        return _Load(seconds_per_byte, longest_ns)

    def startup_ns(self, cost: Cost, buffer_bytes: int) -> float:
        """Time until the pipeline is full."""
        shape, fill = self.shape, self.filling(cost)
        time_ns = (
            cost.inside.base_ns
            + shape.nvlink_steps * (cost.inside.step_ns + self._load.latency_ns[False])
            + shape.messages * cost.inside.message_ns
        )
        if shape.network_steps:
            time_ns += (
                fill.base_ns
                + shape.network_steps * (fill.step_ns + self._load.latency_ns[True])
                + shape.network_messages * fill.message_ns
            )
        part_bytes = min(shape.filling_share * buffer_bytes, fill.fill_limit_bytes)
        return time_ns + shape.waits * part_bytes / 1e6 * fill.fill_ns_per_mb

    def filling(self, cost: Cost) -> Part:
        """The costs that say how long filling takes."""
        if not self.shape.network_steps:
            return cost.inside
        assert cost.between is not None, "it is no candidate between nodes"
        return cost.between

    def seconds(self, cost: Cost, buffer_bytes: int) -> float:
        """Time that the links take from the full pipeline to the end when all are idle."""
        inside, between = self.wire_factors(cost)
        return buffer_bytes * max(
            self._load.seconds_per_byte[False] * inside, self._load.seconds_per_byte[True] * between
        )

    def step_ns(self, cost: Cost) -> float:
        """Time of the longest step."""
        inside_ns = cost.inside.step_ns + self._load.latency_ns[False]
        if not self.crosses or cost.between is None:
            return inside_ns
        return max(inside_ns, cost.between.step_ns + self._load.latency_ns[True])

    def wire_factors(self, cost: Cost) -> tuple[float, float]:
        """Capacity that a byte of payload takes, inside a node and between nodes."""
        shape = self.shape
        own = cost.inside.own_weight * shape.own_share / shape.sent_share
        between = 1.0 if cost.between is None else 1 / cost.between.efficiency
        passing = cost.passing_efficiency if shape.network_steps else None
        return (1 + own) / (passing or cost.inside.efficiency), between


def _routes(shape: Shape, gpus: Mapping[int, Gpu], topology: Topology) -> list[Route]:
    routes = []
    for source, destination, share in shape.transfers:
        if isinstance(source, Switch):
            assert not isinstance(destination, Switch), "a flow has a rank at one end at least"
            down = topology.from_switch if source is Switch.NVLINK else topology.from_fabric
            routes.append(Route(down(gpus[destination]), share, source is Switch.FABRIC))
        elif isinstance(destination, Switch):
            up = topology.to_switch if destination is Switch.NVLINK else topology.to_fabric
            routes.append(Route(up(gpus[source]), share, destination is Switch.FABRIC))
        else:
            one, other = gpus[source], gpus[destination]
            routes.append(Route(topology.path(one, other), share, one.node != other.node))
    return routes
