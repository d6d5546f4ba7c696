"""Flows in virtual time: an event source beside the rest of the simulation.

Rates are piecewise constant. They change when a flow starts or ends or a link's capacity changes,
and only for flows connected to that one by shared links. All changes of one instant are gathered
and take effect together, after everything else that happens at that instant, so their order does
not matter.

The rates come from a pure function of (capacities, paths, caps); another implementation of it can
be given to `FlowNetwork`. Its results are remembered by what the connected flows look like, because
a training loop starts the same flows again and again.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from math import ceil, inf
from typing import Any, NamedTuple

import simpy

from sim_server.network.maxmin import max_min_rates

Solver = Callable[[Sequence[float], Sequence[Sequence[int]], Sequence[float]], list[float]]

# After the normal events (priority 1) of the same instant.
_LAST = simpy.events.EventPriority(2)

# Durations are computed in floating point and rounded up once. A result that is above a whole
# number only by rounding (relative 1e-15 or so) must not become one nanosecond more; 2**-40
# forgives less than one nanosecond for flows of up to 18 minutes.
_FORGIVEN = 1 - 2.0**-40

# Remembered solutions; beyond that many the memory starts anew.
_SOLUTIONS = 4096


class Demand(NamedTuple):
    """What a flow asks of the network."""

    path: tuple[int, ...]
    """Links from source to destination."""
    size_bytes: float
    """What every link of the path has to carry."""
    cap_bytes_per_s: float = inf
    """The rate above which the sender does not go."""


class Batch:
    """Flows that started together; `done` fires when the last of them has ended."""

    def __init__(self, env: simpy.Environment, size: int) -> None:
        self.done = env.event()
        self.ends_ns = [-1] * size
        """End of each flow in the order of the demands; -1 while it runs."""
        self._running = size

    def end(self, position: int, time_ns: int) -> None:
        """Note the end of one flow."""
        self.ends_ns[position] = time_ns
        self._running -= 1
        if self._running == 0:
            self.done.succeed(self.ends_ns)


class _Flow:
    __slots__ = (
        "batch",
        "demand",
        "end_ns",
        "left_bytes",
        "number",
        "position",
        "rate",
        "shape",
        "since_ns",
    )

    def __init__(
        self, number: int, shape: int, demand: Demand, batch: Batch, position: int
    ) -> None:
        self.number = number
        self.shape = shape
        self.demand = demand
        self.batch = batch
        self.position = position
        self.left_bytes = float(demand.size_bytes)
        self.rate = 0.0
        self.since_ns = 0
        self.end_ns = -1


class _Alarm(simpy.Event):
    """Calls back after a delay, at a priority of its own."""

    def __init__(self, env: simpy.Environment, delay_ns: int, callback: Callable[[], None]) -> None:
        super().__init__(env)
        self._ok = True
        self._value: Any = None
        self.callbacks = [lambda _: callback()]
        env.schedule(self, _LAST, delay_ns)


class FlowNetwork:
    """The flows under way on a set of links, in the virtual time of a SimPy environment."""

    def __init__(
        self,
        env: simpy.Environment,
        capacities_bytes_per_s: Iterable[float],
        solver: Solver = max_min_rates,
    ) -> None:
        self._env = env
        self._solver = solver
        self._capacities = list(capacities_bytes_per_s)
        self._on_link: list[dict[int, _Flow]] = [{} for _ in self._capacities]
        self._started = 0
        self._shapes: dict[tuple[tuple[int, ...], float], int] = {}
        self._solutions: dict[tuple[int, ...], list[float]] = {}
        self._changed: dict[int, None] = {}
        self._settling = False
        self._ends: list[tuple[int, int, _Flow]] = []
        self._alarm_ns = -1

    def start(self, demands: Sequence[Demand]) -> Batch:
        """Start flows now. One without bytes ends at once."""
        batch = Batch(self._env, len(demands))
        if not demands:
            batch.done.succeed(batch.ends_ns)
        for position, demand in enumerate(demands):
            if demand.size_bytes <= 0:
                batch.end(position, int(self._env.now))
                continue
            assert demand.path, "a flow needs a link: a copy inside a GPU is not a flow"
            shape = self._shapes.setdefault(
                (demand.path, demand.cap_bytes_per_s), len(self._shapes)
            )
            flow = _Flow(self._started, shape, demand, batch, position)
            self._started += 1
            for link in demand.path:
                self._on_link[link][flow.number] = flow
            self._change(demand.path[:1])
        return batch

    def set_capacity(self, link: int, capacity_bytes_per_s: float) -> None:
        """Change a link from now on. A link without capacity holds its flows up."""
        self._capacities[link] = capacity_bytes_per_s
        self._solutions.clear()
        self._change((link,))

    def rates(self, link: int) -> list[float]:
        """Rates in bytes per second of the flows on a link, in the order in which they started."""
        return [flow.rate for flow in self._on_link[link].values()]

    def _change(self, links: Iterable[int]) -> None:
        self._changed.update(dict.fromkeys(links))
        if not self._settling:
            self._settling = True
            _Alarm(self._env, 0, self._settle)

    def _settle(self) -> None:
        """Give every flow that the changes of this instant can reach its new rate."""
        self._settling = False
        if self._end_due():
            return  # what waited for those ends may start flows first
        reached: set[int] = set()
        for link in self._changed:
            component = self._component(link, reached)
            if component:
                self._apply(component)
        self._changed.clear()
        self._set_alarm()

    def _component(self, link: int, reached: set[int]) -> list[_Flow]:
        """Flows connected to a link that were not reached before, in an order of their looks."""
        found: dict[int, _Flow] = {}
        links = [] if link in reached else [link]
        reached.add(link)
        while links:
            for number, flow in self._on_link[links.pop()].items():
                if number not in found:
                    found[number] = flow
                    fresh = [other for other in flow.demand.path if other not in reached]
                    reached.update(fresh)
                    links += fresh
        return sorted(found.values(), key=lambda flow: (flow.shape, flow.number))

    def _apply(self, component: list[_Flow]) -> None:
        looks = tuple(flow.shape for flow in component)
        rates = self._solutions.get(looks)
        if rates is None:
            if len(self._solutions) >= _SOLUTIONS:
                self._solutions.clear()
            rates = self._solutions[looks] = self._solver(
                self._capacities,
                [flow.demand.path for flow in component],
                [flow.demand.cap_bytes_per_s for flow in component],
            )
        now_ns = int(self._env.now)
        for flow, rate in zip(component, rates, strict=True):
            if rate != flow.rate:
                flow.left_bytes -= flow.rate * (now_ns - flow.since_ns) / 1e9
                flow.rate = rate
                flow.since_ns = now_ns
                self._schedule_end(flow)

    def _schedule_end(self, flow: _Flow) -> None:
        if flow.rate == 0:
            flow.end_ns = -1
            return
        duration_ns = flow.left_bytes / flow.rate * 1e9
        flow.end_ns = flow.since_ns + max(ceil(duration_ns * _FORGIVEN), 1)
        heapq.heappush(self._ends, (flow.end_ns, flow.number, flow))

    def _set_alarm(self) -> None:
        while self._ends and self._ends[0][0] != self._ends[0][2].end_ns:
            heapq.heappop(self._ends)  # its rate has changed since
        if self._ends and self._ends[0][0] != self._alarm_ns:
            self._alarm_ns = self._ends[0][0]
            _Alarm(self._env, self._alarm_ns - int(self._env.now), self._finish)

    def _finish(self) -> None:
        """Called when flows are due, or for nothing when their rates have changed meanwhile."""
        self._end_due()
        self._set_alarm()

    def _end_due(self) -> bool:
        """End the flows whose time has come; whether there were any."""
        now_ns = int(self._env.now)
        ended = False
        while self._ends and self._ends[0][0] <= now_ns:
            end_ns, number, flow = heapq.heappop(self._ends)
            if flow.end_ns != end_ns or number not in self._on_link[flow.demand.path[0]]:
                continue
            for link in flow.demand.path:
                del self._on_link[link][number]
            self._change(flow.demand.path)
            flow.batch.end(flow.position, end_ns)
            ended = True
        return ended
