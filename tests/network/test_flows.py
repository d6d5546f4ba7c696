"""Flows in virtual time."""

from __future__ import annotations

import random
from collections.abc import Generator, Hashable, Sequence
from typing import Any

import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from sim_server.network import Demand, FlowNetwork

_LINKS = 5
Start = tuple[Hashable, int, Demand]


def run(
    starts: Sequence[Start],
    capacities: Sequence[float] = (10e9,) * _LINKS,
    network_type: type[FlowNetwork] = FlowNetwork,
) -> dict[Hashable, int]:
    """End times of demands, each started at its own time."""
    env = simpy.Environment()
    network = network_type(env, capacities)
    ends_ns: dict[Hashable, int] = {}

    def process(key: Hashable, start_ns: int, demand: Demand) -> Generator[simpy.Event, Any, None]:
        yield env.timeout(start_ns)
        (ends_ns[key],) = yield network.start([demand]).done

    for key, start_ns, demand in starts:
        env.process(process(key, start_ns, demand))
    env.run()
    return ends_ns


@st.composite
def histories(draw: st.DrawFn) -> list[Start]:
    """Starts of up to 15 flows within 2 ms, several at the same instant."""
    path = st.lists(st.integers(0, _LINKS - 1), min_size=1, max_size=3, unique=True).map(tuple)
    start = st.tuples(
        st.integers(0, 4).map(lambda step: step * 500_000),
        st.builds(
            Demand, path, st.integers(1, 50_000_000), st.sampled_from((1e9, 7e9, 1e12)), st.none()
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


class Forgetful(FlowNetwork):
    """Solves every time anew."""

    class _Nothing(dict[Any, Any]):
        def __setitem__(self, key: object, value: object) -> None:
            pass

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._solutions = self._Nothing()


@given(histories())
@settings(max_examples=150, deadline=None)
def test_remembered_solutions_equal_fresh_ones(history: list[Start]) -> None:
    """The memory of solutions changes no end time, not by a nanosecond."""
    assert run(history) == run(history, network_type=Forgetful)


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


def test_only_connected_flows_are_solved() -> None:
    """A start recomputes the flows that share links with it, however indirectly, and no others."""
    solved: list[Any] = []

    def solver(
        capacities: Sequence[float], paths: Sequence[Sequence[int]], caps: Sequence[float]
    ) -> list[float]:
        solved.append(sorted(paths))
        return [1e9] * len(paths)

    env = simpy.Environment()
    network = FlowNetwork(env, [1e9] * 5, solver)
    network.start([Demand((0, 1), 1e6), Demand((1, 2), 1e6), Demand((3,), 1e6)])
    env.run(until=10)
    network.start([Demand((2,), 1e6)])
    env.run(until=20)
    assert solved == [[(0, 1), (1, 2)], [(3,)], [(0, 1), (1, 2), (2,)]]


def test_flow_without_link_is_refused() -> None:
    """A flow without links is a mistake of the caller."""
    with pytest.raises(AssertionError, match="needs a link"):
        FlowNetwork(simpy.Environment(), [1e9]).start([Demand((), 1.0)])
