"""Flows in virtual time: an event source beside the rest of the simulation.

Rates are piecewise constant. They change when a flow starts or ends or a link's capacity changes,
and only for flows connected to that one by shared links. All changes of one instant are gathered
and take effect together, after everything else that happens at that instant, so their order does
not matter. Rates and ends are worked out in C++ (csrc/network).

Flows that are alike can be one (`sim_server.network.folding`), and so can batches of them
(`sim_server.network.replicas`): they are taken apart when something else uses one of their links.

With `sim_server.network.settling` these rates are what flows approach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import simpy

from sim_server._network import FlowSet
from sim_server.network.folding import Fold
from sim_server.network.link_use import LinkUse
from sim_server.network.replicas import Replicas, mapped
from sim_server.network.settling import Settling

# After the normal events (priority 1) of the same instant.
_LAST = simpy.events.EventPriority(2)


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

    def __init__(self, env: simpy.Environment) -> None:
        self.done = env.event()
        self.ends_ns: list[int] = []
        """End of each flow in the order of the demands, when all have ended."""
        self.limits_ns: dict[str, int] = {}
        """How long what held its flows up: classes of links, or their own channels. Likewise."""
        self.parted: list[Batch] = []
        """Of its replicas, once they go on by themselves; the others end when it does."""

    @property
    def limit(self) -> str:
        """What held its flows up longest. Empty if that was not watched, or nothing flowed."""
        return max(sorted(self.limits_ns), key=self.limits_ns.__getitem__, default="")

    def end(self, ends_ns: list[int]) -> None:
        """All its flows have ended."""
        self.ends_ns = ends_ns
        self.done.succeed(ends_ns)


@dataclass(frozen=True, eq=False)
class _Alike:
    """Flows that stand for others, of a fold or of replicas."""

    batch: Batch
    number: int
    """Of the batch."""
    demands: Sequence[Demand]
    fold: Fold | None
    replicas: Replicas | None

    @property
    def is_over(self) -> bool:
        """Whether all have ended."""
        return self.batch.done.triggered


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
        use: LinkUse | None = None,
        settling: Settling | None = None,
    ) -> None:
        """`use`: watches how busy links are. `settling`: rates take time to change."""
        self._env = env
        self._use = use
        self._flows = FlowSet(
            list(capacities_bytes_per_s),
            None if use is None else use.counted,
            None if settling is None else (settling.time_s, sorted(settling.links)),
        )
        self._batches: dict[int, Batch] = {}
        self._alike: dict[frozenset[int], _Alike] = {}
        """By their links, and those of all that they stand for. Nothing else has used these since
        they started."""
        self._alike_on: dict[int, frozenset[int]] = {}
        """By link."""
        self._changed_capacities: set[int] = set()
        self._settling = False
        self._alarm_ns: int | None = None

    def start(
        self,
        demands: Sequence[Demand],
        fold: Fold | None = None,
        replicas: Replicas | None = None,
    ) -> Batch:
        """Start flows now. One without bytes ends at once. Those of a fold are its classes.

        `replicas` carry out the same: those of the group that the flows are of.
        """
        batch = Batch(self._env)
        if all(demand.size_bytes <= 0 for demand in demands):
            batch.end([self._now_ns] * len(demands))
            return batch
        if fold is not None or replicas is not None:
            self._start_alike(demands, fold, replicas, batch)
        else:
            if self._alike_on:
                for demand in demands:
                    self._unfold(demand.path)
            self._start(demands, batch)
        return batch

    def _start(self, demands: Sequence[Demand], batch: Batch, alike: int = 1) -> int:
        number = self._flows.start(self._now_ns, demands, alike)
        self._batches[number] = batch
        self._change()
        return number

    def _start_alike(
        self, demands: Sequence[Demand], fold: Fold | None, replicas: Replicas | None, batch: Batch
    ) -> None:
        links, others = frozenset[int](), 0
        if fold is not None:
            links = fold.links
        if replicas is not None:
            links, others = replicas.links, len(replicas.mappings)
        last = self._alike.get(links)
        again = last is not None and last.is_over
        alone = again or all(map(self._is_idle, links))
        if not again:
            self._unfold(links)
            self._alike_on.update(dict.fromkeys(links, links))
        number = self._start(demands, batch, 1 + others)
        self._alike[links] = _Alike(batch, number, demands, fold, replicas)
        if not alone:
            self._take_apart(links)

    def _is_idle(self, link: int) -> bool:
        """Whether a link has no flows, and is what it was when the network was made."""
        links = self._alike_on.get(link)
        used = not self._flows.is_idle(link) or (
            links is not None and not self._alike[links].is_over
        )
        return not used and link not in self._changed_capacities

    def _unfold(self, links: Iterable[int]) -> None:
        """Take apart what stands for others on these links."""
        for link in links:
            if (alike := self._alike_on.get(link)) is not None:
                self._take_apart(alike)

    def _take_apart(self, links: frozenset[int]) -> None:
        """Every flow goes on as the one that stands for it would have."""
        alike = self._alike.pop(links)
        for link in links:
            del self._alike_on[link]
        if alike.is_over:
            return
        classes = None if alike.fold is None else alike.fold.paths()
        for number, mapping in self._separate(alike):
            if classes is not None:
                replica = [[mapped(path, mapping) for path in paths] for paths in classes]
                self._flows.split(self._now_ns, number, replica)
        if classes is not None:
            self._flows.split(self._now_ns, alike.number, classes)
        self._change()

    def _separate(self, alike: _Alike) -> list[tuple[int, Mapping[int, int]]]:
        """Replicas become batches of their own: their numbers, and their links."""
        if alike.replicas is None:
            return []
        mappings = alike.replicas.mappings
        paths = [[mapped(demand.path, one) for demand in alike.demands] for one in mappings]
        numbers = self._flows.separate(self._now_ns, alike.number, paths)
        for number in numbers:
            self._batches[number] = Batch(self._env)
            alike.batch.parted.append(self._batches[number])
        return list(zip(numbers, mappings, strict=True))

    def set_capacity(self, link: int, capacity_bytes_per_s: float) -> None:
        """Change a link from now on. A link without capacity holds its flows up."""
        self._unfold((link,))
        self._changed_capacities.add(link)
        self._flows.set_capacity(link, capacity_bytes_per_s)
        self._change()

    def rates(self, link: int) -> list[float]:
        """Rates in bytes per second of the flows on a link, in the order in which they started."""
        self._unfold((link,))
        return self._flows.rates(link)

    @property
    def _now_ns(self) -> int:
        return int(self._env.now)

    def _change(self) -> None:
        """Something has changed that has to settle when this instant is over."""
        if not self._settling:
            self._settling = True
            _Alarm(self._env, 0, self._settle)

    def _settle(self) -> None:
        self._settling = False
        if self._end_due():
            return  # what waited for those ends may start flows first
        self._flows.settle(self._now_ns)
        self._set_alarm()

    def _set_alarm(self) -> None:
        end_ns = self._flows.next_end_ns()
        if end_ns is not None and end_ns != self._alarm_ns:
            self._alarm_ns = end_ns
            _Alarm(self._env, end_ns - self._now_ns, self._finish)

    def _finish(self) -> None:
        """Called when flows are due, or for nothing when their rates have changed meanwhile."""
        self._end_due()
        self._set_alarm()

    def _end_due(self) -> bool:
        """End the flows whose time has come; whether there were any."""
        ended = self._flows.end_due(self._now_ns)
        if ended is None:
            return False
        self._change()
        for one in ended:
            batch = self._batches.pop(one.batch)
            if self._use is not None:
                batch.limits_ns = self._use.by_name(one.limits_ns)
            batch.end(one.ends_ns)
        return True
