"""Flows in virtual time."""

from __future__ import annotations

import random
from collections.abc import Generator, Hashable, Sequence
from math import inf
from typing import Any

import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st
from pure_flows import Change, Start, pure_ends_ns

from sim_server.network import Batch, Demand, FlowNetwork, Fold, Link, LinkUse, Replicas

_LINKS = 5
_CAPACITIES = (10e9,) * _LINKS


def run(
    starts: Sequence[Start],
    capacities: Sequence[float] = _CAPACITIES,
    changes: Sequence[Change] = (),
    network_type: type[FlowNetwork] = FlowNetwork,
) -> dict[Hashable, int]:
    """End times of demands, each started at its own time; `changes` of capacities are as given."""
    env = simpy.Environment()
    network = network_type(env, capacities)
    ends_ns: dict[Hashable, int] = {}

    def process(key: Hashable, start_ns: int, demand: Demand) -> Generator[simpy.Event, Any, None]:
        yield env.timeout(start_ns)
        (ends_ns[key],) = yield network.start([demand]).done

    def change(time_ns: int, link: int, capacity: float) -> Generator[simpy.Event, Any, None]:
        yield env.timeout(time_ns)
        network.set_capacity(link, capacity)

    for key, start_ns, demand in starts:
        env.process(process(key, start_ns, demand))
    for one in changes:
        env.process(change(*one))
    env.run()
    return ends_ns


@st.composite
def histories(draw: st.DrawFn) -> list[Start]:
    """Starts of up to 15 flows within 2 ms, several at the same instant."""
    path = st.lists(st.integers(0, _LINKS - 1), min_size=1, max_size=3, unique=True).map(tuple)
    start = st.tuples(
        st.integers(0, 4).map(lambda step: step * 500_000),
        st.builds(
            Demand,
            path,
            st.integers(1, 50_000_000),
            st.sampled_from((1e9, 7e9, 1e12)),
            st.none(),
            st.just(1),
        ),
    )
    starts = draw(st.lists(start, min_size=1, max_size=15))
    return [(key, *start) for key, start in enumerate(starts)]


@given(histories(), st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_order_within_an_instant_does_not_matter(history: list[Start], seed: int) -> None:
    """Starts of the same instant delivered in any order give one history."""
    shuffled = random.Random(seed).sample(history, len(history))
    assert run(shuffled) == run(history)


@given(histories())
@settings(max_examples=500, deadline=None)
def test_ends_are_those_of_the_definition(history: list[Start]) -> None:
    """What only looks at flows that a change can reach finds the same ends, to the nanosecond."""
    assert run(history) == pure_ends_ns(history, _CAPACITIES)


@pytest.mark.parametrize("seed", range(20))
def test_long_histories(seed: int) -> None:
    """The same of a hundred histories for each seed: up to 60 flows on 12 links, whose capacities
    change and may be zero for a time."""
    for number in range(100):
        chance = random.Random(f"{seed} {number}")
        capacities = [chance.choice([1e9, 7e9, 10e9, chance.uniform(1e8, 1e11)]) for _ in range(12)]
        starts: list[Start] = [
            (key, chance.randrange(8) * 250_000, random_demand(chance, len(capacities)))
            for key in range(chance.randint(2, 60))
        ]
        changes = [
            (chance.randrange(1, 40) * 100_000, link, factor * capacities[link])
            for link in chance.sample(range(12), chance.randint(0, 3))
            for factor in (chance.choice([0.0, 0.5, 3.0]),)
        ]
        changes += [(5_000_000, link, capacities[link]) for _, link, _ in changes]
        assert run(starts, capacities, changes) == pure_ends_ns(starts, capacities, changes)


def random_demand(chance: random.Random, links: int) -> Demand:
    """A flow over up to four links."""
    path = tuple(chance.sample(range(links), chance.randint(1, 4)))
    cap_bytes_per_s = chance.choice([inf, inf, 1e9, chance.uniform(1e8, 1e10)])
    return Demand(path, chance.choice([1, 10**6, chance.randint(1, 10**8)]), cap_bytes_per_s)


class Disconnected(FlowNetwork):
    """Wrong: what starts gets a rate, and nothing else does."""

    def start(
        self,
        demands: Sequence[Demand],
        fold: Fold | None = None,
        replicas: Replicas | None = None,
    ) -> Batch:
        """Each flow on links of its own."""
        lone = FlowNetwork(self._env, _CAPACITIES)
        return lone.start(demands, fold, replicas)


def test_the_definition_rejects_what_is_wrong() -> None:
    """Flows that do not share are noticed."""
    history = [(0, 0, Demand((0,), 10**6)), (1, 0, Demand((0, 1), 10**6))]
    assert run(history, network_type=Disconnected) != pure_ends_ns(history, _CAPACITIES)


@given(histories())
@settings(max_examples=150, deadline=None)
def test_links_are_work_conserving(history: list[Start]) -> None:
    """No flow ends before its bytes can have passed, nor after all bytes one by one could have."""
    ends_ns = run(history)
    last_start_ns = max(start_ns for _, start_ns, _ in history)
    one_by_one_s = sum(
        demand.size_bytes / min(10e9, demand.cap_bytes_per_s) for _, _, demand in history
    )
    for key, start_ns, demand in history:
        alone_s = demand.size_bytes / min(10e9, demand.cap_bytes_per_s)
        assert ends_ns[key] >= start_ns + alone_s * 1e9 - 1
        assert ends_ns[key] <= last_start_ns + one_by_one_s * 1e9 + len(history)


def test_durations_round_up_once() -> None:
    """A flow of 1 byte at 3 bytes/ns takes 1 ns, one of 10 bytes 4 ns, one of 9 bytes exactly 3."""
    for size_bytes, duration_ns in ((1, 1), (10, 4), (9, 3)):
        assert run([("only", 0, Demand((0,), size_bytes))], [3e9]) == {"only": duration_ns}


def test_rounding_of_what_is_left_does_not_show() -> None:
    """Three flows of 6 GB, 6 ns apart: when the last is alone, 3 bytes are left of it. It ends when
    all bytes have passed, and not a nanosecond later.
    """
    starts = [(number, 6 * number, Demand((0,), 6e9)) for number in range(3)]
    assert run(starts, [1e9]) == {0: 17_999_999_985, 1: 17_999_999_997, 2: 18_000_000_000}


def test_flow_without_bytes_ends_at_once() -> None:
    """Zero bytes take no time and no link."""
    assert run([("empty", 7, Demand((0,), 0)), ("full", 7, Demand((0,), 10e9))]) == {
        "empty": 7,
        "full": 10**9 + 7,
    }


def test_link_without_capacity_holds_flows_up() -> None:
    """A flow waits while its link is down and goes on where it was when the link is back."""
    env = simpy.Environment()
    network = FlowNetwork(env, [10e9])
    batch = network.start([Demand((0,), 1e9)])

    def outage() -> Generator[simpy.Event, Any, None]:
        yield env.timeout(50_000_000)
        network.set_capacity(0, 0.0)
        yield env.timeout(1_000_000_000)
        assert network.rates(0) == [0.0]
        network.set_capacity(0, 10e9)

    env.process(outage())
    env.run()
    assert batch.ends_ns == [1_100_000_000]


def test_only_connected_flows_are_looked_at() -> None:
    """A start concerns the flows that share links with it, however indirectly, and no others: use
    of the other links is one stretch, and that of these is cut there.
    """
    env = simpy.Environment()
    use = LinkUse([Link("nic 0.0", f"leaf {number}", 10**9, 0) for number in range(5)])
    network = FlowNetwork(env, [1e9] * 5, use)
    network.start([Demand((0, 1), 1e3, 1e8), Demand((1, 2), 1e3, 1e8), Demand((3,), 1e3, 1e8)])
    env.run(until=10)
    network.start([Demand((2,), 1e3, 1e8)])
    env.run()
    rows, _ = use.counted.take(1 << 60)
    assert sorted((begin, end) for begin, end, _ in rows.tolist()) == [
        *((0, 10), (0, 10_000), (10, 10_000), (10_000, 10_010)),
    ]


def test_flow_without_link_is_refused() -> None:
    """A flow without links is a mistake of the caller."""
    with pytest.raises(RuntimeError, match="needs a link"):
        FlowNetwork(simpy.Environment(), [1e9]).start([Demand((), 1.0)])
