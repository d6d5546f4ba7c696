"""Groups that are carried along with one of them, against each started by itself."""

from __future__ import annotations

import io
import json
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from sim_server.cluster import load_cluster
from sim_server.network import Batch, Demand, FlowNetwork, Fold, Gpu, LinkUse, Replicas, Topology

NODES = 4
MS = 10**6
TOPOLOGY = Topology(load_cluster("h100"), NODES)
GPUS = [Gpu(node, number) for node in range(NODES) for number in range(8)]
GROUPS = [GPUS[first : first + 4] for first in range(0, len(GPUS), 4)]
FOLDS = [Fold(TOPOLOGY, group) for group in GROUPS]


def replicas() -> Replicas:
    found = Replicas.of(TOPOLOGY, GROUPS[0], GROUPS[1:])
    assert found is not None
    return found


def demands(number: int, is_exchange: bool, size_bytes: float) -> tuple[list[Demand], Fold | None]:
    """Of a group: from each GPU to the next, or to each other."""
    group, fold = GROUPS[number], FOLDS[number]
    if not is_exchange:
        pairs = zip(group, group[1:] + group[:1], strict=True)
        return [Demand(TOPOLOGY.path(*pair), size_bytes) for pair in pairs], None
    classes = fold.classes
    return [
        Demand(one.path, size_bytes, flows_on_link=one.flows_on_link, flows=one.flows)
        for one in classes
    ], fold


class Played:
    """What groups did at random times, and others on the links of some."""

    def __init__(self, seed: int, together: bool) -> None:
        """`together`: the first group's operations carry those of the others along."""
        self._env = simpy.Environment()
        self._use = LinkUse(TOPOLOGY.links)
        capacities = [link.capacity_bytes_per_s for link in TOPOLOGY.links]
        self._network = FlowNetwork(self._env, capacities, self._use)
        self._together = together
        self._batches: list[list[Batch]] = []
        chance = random.Random(seed)
        for _ in range(chance.randint(1, 8)):
            is_exchange, size_bytes = chance.random() < 0.3, chance.randint(1, 1 << 28)
            self._at(chance, partial(self._start, is_exchange, size_bytes))
        for _ in range(chance.choice([0, 0, 1, 3])):
            path = TOPOLOGY.path(*chance.sample(GPUS, 2))
            self._at(chance, partial(self._disturb, Demand(path, chance.randint(1, 1 << 28))))
        if chance.random() < 0.3:
            (link, *_) = TOPOLOGY.path(*chance.sample(GPUS, 2))
            self._at(chance, partial(self._network.set_capacity, link, 1e10))
        self._env.run()
        self.ends_ns = [
            [max(one.ends_ns) for one in batches] for batches in map(self._of_each, self._batches)
        ]

    def _at(self, chance: random.Random, action: Callable[[], None]) -> None:
        event = self._env.timeout(chance.randrange(40) * MS // 10)
        assert event.callbacks is not None
        event.callbacks.append(lambda _: action())

    def _disturb(self, demand: Demand) -> None:
        self._batches.append([self._network.start([demand])])

    def _start(self, is_exchange: bool, size_bytes: int) -> None:
        last = 1 if self._together else len(GROUPS)
        batches = []
        for number in range(last):
            wanted, fold = demands(number, is_exchange, size_bytes)
            with_it = replicas() if self._together else None
            batches.append(self._network.start(wanted, fold, with_it))
        self._batches.append(batches)

    def _of_each(self, batches: Sequence[Batch]) -> Sequence[Batch]:
        (first, *others) = batches
        return [first, *(first.parted or others)]

    def use(self) -> dict[str, float]:
        """How busy links were, in all, by class."""
        pieces = list(self._use.take(1 << 60))
        loads = [one for name, text in pieces if name.endswith("json") for one in json.loads(text)]
        total: dict[str, float] = defaultdict(float)
        for name, text in pieces:
            if name.endswith("npy"):
                for begin_ns, end_ns, load in np.load(io.BytesIO(text)).tolist():
                    for link_class, (share, *_) in loads[load].items():
                        total[link_class] += share * (end_ns - begin_ns)
        return total


def every(ends_ns: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]) -> list[list[int]]:
    """Replicas that never went on by themselves ended with their group."""
    return [
        [*one] if len(one) == len(other) else [*one] * len(other)
        for one, other in zip(ends_ns, wanted, strict=True)
    ]


@given(st.integers(0, 1 << 30))
@settings(max_examples=150, deadline=None)
def test_they_end_as_if_each_had_been_started(seed: int) -> None:
    """All flows of all groups, and what was in their way; and links are as busy."""
    alone, together = Played(seed, together=False), Played(seed, together=True)
    assert every(together.ends_ns, alone.ends_ns) == alone.ends_ns
    assert together.use() == pytest.approx(alone.use(), rel=1e-5)


def test_the_comparison_sees_one_that_is_late() -> None:
    """Some history has groups that do not end together."""
    played = (Played(seed, together=True) for seed in range(50))
    assert any(len(set(ends)) > 1 for one in played for ends in one.ends_ns)


@pytest.mark.parametrize(
    "others",
    [
        [[Gpu(1, 0), Gpu(2, 1)]],  # of two nodes
        [[Gpu(0, 1), Gpu(0, 2)]],  # which share a GPU
        [[Gpu(1, 0), Gpu(1, 1), Gpu(1, 2)]],
    ],
)
def test_groups_that_are_not_alike(others: list[list[Gpu]]) -> None:
    """They have to start by themselves."""
    assert Replicas.of(TOPOLOGY, [Gpu(0, 0), Gpu(0, 1)], others) is None
