"""Flows in virtual time: an event source beside the rest of the simulation.

Rates are piecewise constant. They change when a flow starts or ends or a link's capacity changes,
and only for flows connected to that one by shared links. All changes of one instant are gathered
and take effect together, after everything else that happens at that instant, so their order does
not matter.

Flows that are alike can be one (`sim_server.network.folding`): they are taken apart when something
else uses one of their links.

With `sim_server.network.settling` these rates are what flows approach.

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

from sim_server.network.folding import Fold
from sim_server.network.link_use import LinkUse, Load, Measured, Tightness
from sim_server.network.maxmin import max_min_rates
from sim_server.network.settling import Settling

Solver = Callable[..., list[float]]
"""As `max_min_rates`; the counts are given where flows are folded only."""

# After the normal events (priority 1) of the same instant.
_LAST = simpy.events.EventPriority(2)

# Ends are computed in floating point and rounded up once. One that is after a whole nanosecond only
# by rounding must not become one nanosecond more. What is left of a flow is known to 2**-52 or so
# of its size per change of its rate, so this part of its size is forgiven: it takes less than one
# nanosecond for flows of up to an hour.
_FORGIVEN = 2.0**-42

# `end_ns` of flows that have no end yet, and of those that are over.
_NEVER = -1
_OVER = -2

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
    flows_on_link: tuple[int, ...] | None = None
    """For flows that stand for others: how many of them each link of the path carries."""
    flows: int = 1
    """How many there are of it in all: more only if it stands for others."""


class Batch:
    """Flows that started together; `done` fires when the last of them has ended."""

    def __init__(self, env: simpy.Environment, size: int) -> None:
        self.done = env.event()
        self.ends_ns = [-1] * size
        """End of each flow in the order of the demands; -1 while it runs."""
        self.limits_ns: dict[str, int] = {}
        """How long what held its flows up: classes of links, or their own channels."""
        self._running = size

    @property
    def limit(self) -> str:
        """What held its flows up longest. Empty if that was not watched, or nothing flowed."""
        return max(sorted(self.limits_ns), key=self.limits_ns.__getitem__, default="")

    def split(self, flows: int) -> None:
        """One flow becomes several; its end is that of the last."""
        self._running += flows - 1

    def end(self, position: int, time_ns: int) -> None:
        """Note the end of one flow."""
        self.ends_ns[position] = time_ns
        self._running -= 1
        if self._running == 0:
            self.done.succeed(self.ends_ns)


class _Stretch:
    """Flows that share links, from one change of their rates to the next."""

    __slots__ = ("begin_ns", "is_over", "load", "tightest")

    def __init__(self, begin_ns: int, load: Load) -> None:
        self.begin_ns = begin_ns
        self.load = load
        self.is_over = False
        self.tightest: dict[Batch, Tightness] = {}


class _Flow:
    __slots__ = (
        "batch",
        "demand",
        "end_ns",
        "excess",
        "left_bytes",
        "number",
        "position",
        "rate",
        "shape",
        "since_ns",
        "stretch",
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
        self.excess = 0.0  # over that rate at since_ns, where rates settle
        self.since_ns = 0
        self.end_ns = _NEVER
        self.stretch: _Stretch | None = None


class _Folded:
    """Flows of a fold that started, one for each class."""

    def __init__(self, fold: Fold, flows: list[_Flow]) -> None:
        self.fold = fold
        self.flows = flows

    @property
    def is_over(self) -> bool:
        """Whether all have ended."""
        return all(flow.end_ns == _OVER for flow in self.flows)


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
        use: LinkUse | None = None,
        settling: Settling | None = None,
    ) -> None:
        """`use`: watches how busy links are. `settling`: rates take time to change."""
        self._env = env
        self._use = use
        self._control = settling
        self._solver = solver
        self._capacities = list(capacities_bytes_per_s)
        self._on_link: list[dict[int, _Flow]] = [{} for _ in self._capacities]
        self._folded_on: dict[int, _Folded] = {}
        self._changed_capacities: set[int] = set()
        self._started = 0
        self._shapes: dict[tuple[object, ...], int] = {}
        self._solutions: dict[tuple[int, ...], tuple[list[float], Measured | None]] = {}
        self._changed: dict[int, None] = {}
        self._settling = False
        self._ends: list[tuple[int, int, _Flow]] = []
        self._alarm_ns = -1

    def start(self, demands: Sequence[Demand], fold: Fold | None = None) -> Batch:
        """Start flows now. One without bytes ends at once. Those of a fold are its classes."""
        batch = Batch(self._env, len(demands))
        if not demands:
            batch.done.succeed(batch.ends_ns)
        if fold is not None:
            self._start_folded(demands, fold, batch)
            return batch
        for position, demand in enumerate(demands):
            if demand.size_bytes <= 0:
                batch.end(position, int(self._env.now))
                continue
            assert demand.path, "a flow needs a link: a copy inside a GPU is not a flow"
            self._unfold(demand.path)
            self._start(demand, batch, position)
        return batch

    def _start(self, demand: Demand, batch: Batch, position: int) -> _Flow:
        look = (demand.path, demand.cap_bytes_per_s, demand.flows_on_link, demand.flows)
        shape = self._shapes.setdefault(look, len(self._shapes))
        flow = _Flow(self._started, shape, demand, batch, position)
        self._started += 1
        for link in demand.path:
            self._on_link[link][flow.number] = flow
        self._change(demand.path[:1])
        return flow

    def _start_folded(self, demands: Sequence[Demand], fold: Fold, batch: Batch) -> None:
        alone = all(map(self._is_idle, fold.links))
        self._unfold(fold.links)
        flows = [self._start(demand, batch, index) for index, demand in enumerate(demands)]
        folded = _Folded(fold, flows)
        self._folded_on.update(dict.fromkeys(fold.links, folded))
        if not alone:
            self._take_apart(folded)

    def _is_idle(self, link: int) -> bool:
        """Whether a link has no flows, and is what it was when the network was made."""
        folded = self._folded_on.get(link)
        used = self._on_link[link] or (folded is not None and not folded.is_over)
        return not used and link not in self._changed_capacities

    def _unfold(self, links: Iterable[int]) -> None:
        """Take apart what is folded on these links."""
        if not self._folded_on:
            return
        for link in links:
            if (folded := self._folded_on.get(link)) is not None:
                self._take_apart(folded)

    def _take_apart(self, folded: _Folded) -> None:
        """Every flow goes on as its class would have."""
        for link in folded.fold.links:
            del self._folded_on[link]
        if folded.is_over:
            return
        for flow, flow_class in zip(folded.flows, folded.fold.classes, strict=True):
            if flow.end_ns != _OVER:
                flow.batch.split(flow_class.flows)
        for index, path in folded.fold.members():
            of = folded.flows[index]
            if of.end_ns == _OVER:
                continue
            demand = of.demand._replace(path=path, flows_on_link=None, flows=1)
            flow = self._start(demand, of.batch, of.position)
            flow.left_bytes, flow.rate, flow.since_ns = of.left_bytes, of.rate, of.since_ns
            flow.end_ns, flow.excess = of.end_ns, of.excess
            if flow.end_ns != _NEVER:
                heapq.heappush(self._ends, (flow.end_ns, flow.number, flow))
        for flow in folded.flows:
            self._remove(flow)

    def _remove(self, flow: _Flow) -> None:
        flow.end_ns = _OVER
        self._end_stretch(flow.stretch)
        for link in flow.demand.path:
            self._on_link[link].pop(flow.number, None)
        self._change(flow.demand.path)

    def set_capacity(self, link: int, capacity_bytes_per_s: float) -> None:
        """Change a link from now on. A link without capacity holds its flows up."""
        self._unfold((link,))
        self._changed_capacities.add(link)
        self._capacities[link] = capacity_bytes_per_s
        self._solutions.clear()
        self._change((link,))

    def rates(self, link: int) -> list[float]:
        """Rates in bytes per second of the flows on a link, in the order in which they started."""
        self._unfold((link,))
        return [flow.rate for flow in self._on_link[link].values()]

    def _change(self, links: Iterable[int]) -> None:
        for link in links:
            self._changed[link] = None
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
            if link not in reached and self._on_link[link]:
                self._apply(self._component(link, reached))
        self._changed.clear()
        self._set_alarm()

    def _component(self, link: int, reached: set[int]) -> list[_Flow]:
        """Flows connected to a link that has some, in an order of their looks."""
        found = dict(self._on_link[link])
        reached.add(link)
        todo = list(found.values())
        while todo:
            for other in todo.pop().demand.path:
                if other not in reached:
                    reached.add(other)
                    on_link = self._on_link[other]
                    if len(on_link) > 1:  # the flow through which it was reached is one
                        fresh = [flow for flow in on_link.values() if flow.number not in found]
                        todo += fresh
                        found.update((flow.number, flow) for flow in fresh)
        if len(found) == 1:
            return list(found.values())
        return sorted(found.values(), key=lambda flow: (flow.shape, flow.number))

    def _apply(self, component: list[_Flow]) -> None:
        looks = tuple(flow.shape for flow in component)
        solution = self._solutions.get(looks)
        if solution is None:
            if len(self._solutions) >= _SOLUTIONS:
                self._solutions.clear()
            demands = [flow.demand for flow in component]
            rates = self._solve(demands)
            found = None if self._use is None else self._use.measure(demands, rates)
            solution = self._solutions[looks] = (rates, found)
        rates, measured = solution
        if measured is not None:
            self._begin_stretch(component, measured)
        now_ns = int(self._env.now)
        control = self._control
        settles = control is not None and control.holds(flow.demand.path for flow in component)
        for flow, rate in zip(component, rates, strict=True):
            if rate != flow.rate:
                if control is None:
                    flow.left_bytes -= flow.rate * (now_ns - flow.since_ns) / 1e9
                else:
                    self._approach(flow, rate if settles else None, (now_ns - flow.since_ns) / 1e9)
                flow.rate = rate
                flow.since_ns = now_ns
                self._schedule_end(flow)

    def _approach(self, flow: _Flow, rate: float | None, seconds: float) -> None:
        """Before a new fair rate; None where rates jump."""
        assert self._control is not None, "asked for only then"
        flow.left_bytes -= self._control.moved_bytes(flow.rate, flow.excess, seconds)
        now = flow.rate + self._control.excess(flow.excess, seconds)
        flow.excess = 0.0 if rate is None else now - rate

    def _begin_stretch(self, component: list[_Flow], measured: Measured) -> None:
        stretch = _Stretch(int(self._env.now), measured.load)
        for flow, tightness in zip(component, measured.tightest, strict=True):
            self._end_stretch(flow.stretch)
            flow.stretch = stretch
            known = stretch.tightest.get(flow.batch)
            if known is None or tightness > known:
                stretch.tightest[flow.batch] = tightness

    def _end_stretch(self, stretch: _Stretch | None) -> None:
        """One of its flows ends, or gets a new rate."""
        if self._use is None or stretch is None or stretch.is_over:
            return
        stretch.is_over = True
        now_ns = int(self._env.now)
        if now_ns == stretch.begin_ns:
            return
        self._use.note(stretch.begin_ns, now_ns, stretch.load)
        for batch, tightness in stretch.tightest.items():
            before_ns = batch.limits_ns.get(tightness.limit, 0)
            batch.limits_ns[tightness.limit] = before_ns + now_ns - stretch.begin_ns

    def _solve(self, demands: list[Demand]) -> list[float]:
        paths = [demand.path for demand in demands]
        caps = [demand.cap_bytes_per_s for demand in demands]
        counts = [demand.flows_on_link for demand in demands]
        if not any(counts):
            return self._solver(self._capacities, paths, caps)
        # Folded flows and others never share a link.
        return self._solver(self._capacities, paths, caps, counts)

    def _schedule_end(self, flow: _Flow) -> None:
        if flow.rate == 0:
            flow.end_ns = _NEVER
            return
        left_bytes = flow.left_bytes - flow.demand.size_bytes * _FORGIVEN
        seconds = left_bytes / flow.rate
        if flow.excess and self._control is not None:
            seconds = self._control.seconds_for(left_bytes, flow.rate, flow.excess)
        flow.end_ns = flow.since_ns + max(ceil(seconds * 1e9), 1)
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
            end_ns, _, flow = heapq.heappop(self._ends)
            if flow.end_ns != end_ns:
                continue  # its rate has changed since, or it has ended
            self._remove(flow)
            flow.batch.end(flow.position, end_ns)
            ended = True
        return ended
