"""Max-min fair rates."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from math import inf

import pytest
from hypothesis import find, given, settings
from hypothesis.errors import NoSuchExample
from max_min_properties import Solver, counted_problems, find_fault, problems
from wrong_solvers import WRONG_SOLVERS

from sim_server import _network
from sim_server.network import max_min_rates

Problem = tuple[list[float], list[list[int]], list[float]]
CountedProblem = tuple[list[float], list[list[int]], list[float], list[list[int]]]


@given(problems())
@settings(max_examples=400, deadline=None)
def test_rates_are_max_min_fair(problem: Problem) -> None:
    """No link or flow is over its limit, and every flow has a reason for its rate."""
    assert find_fault(*problem, max_min_rates(*problem)) is None


@given(counted_problems())
@settings(max_examples=2000, deadline=None)
def test_compiled_rates_equal_the_definition(problem: CountedProblem) -> None:
    """To the last bit, also where flows stand for others."""
    assert _network.max_min_rates(*problem) == max_min_rates(*problem)


@pytest.mark.parametrize("seed", range(20))
def test_compiled_rates_of_many_flows(seed: int) -> None:
    """Likewise where hundreds of flows stop one after the other, some of them together."""
    chance = random.Random(seed)
    capacities = [chance.choice([1e9, 2e9, chance.uniform(1e8, 1e10)]) for _ in range(60)]
    paths = [chance.sample(range(60), chance.randint(1, 5)) for _ in range(400)]
    caps = [chance.choice([inf, 1e7, chance.uniform(1e6, 1e9)]) for _ in paths]
    assert _network.max_min_rates(capacities, paths, caps) == max_min_rates(capacities, paths, caps)


@given(problems())
@settings(max_examples=200, deadline=None)
def test_rates_equal_exact_arithmetic(problem: Problem) -> None:
    """Floating point differs from exact fractions only by rounding."""
    exact = exact_rates(*problem)
    assert max_min_rates(*problem) == pytest.approx([float(rate) for rate in exact], rel=1e-11)


@given(problems())
@settings(max_examples=200, deadline=None)
def test_order_of_flows_does_not_matter(problem: Problem) -> None:
    """Reversed flows have reversed rates, up to rounding."""
    capacities, paths, caps = problem
    reverse = max_min_rates(capacities, paths[::-1], caps[::-1])
    assert reverse[::-1] == pytest.approx(max_min_rates(*problem), rel=1e-12)


@pytest.mark.parametrize("solver", WRONG_SOLVERS, ids=lambda solver: solver.__name__)
def test_properties_reject_wrong_solver(solver: Solver) -> None:
    """The property suite finds a fault in every solver that is not max-min fair."""

    def rejects(problem: Problem) -> bool:
        return find_fault(*problem, solver(*problem)) is not None

    try:
        find(
            problems(),
            rejects,
            settings=settings(max_examples=1000, database=None, deadline=None, derandomize=True),
        )
    except NoSuchExample:
        pytest.fail(f"no property rejects {solver.__name__}")


def test_more_capacity_can_slow_a_flow() -> None:
    """A widely believed property is false, so it must not become a test: here is a
    counterexample."""
    paths = [[0], [0, 1], [1]]
    narrow = max_min_rates([2.0, 10.0], paths, [inf] * 3)
    wide = max_min_rates([12.0, 10.0], paths, [inf] * 3)
    assert narrow == [1.0, 1.0, 9.0]
    assert wide == [7.0, 5.0, 5.0]


def test_link_without_capacity_stops_its_flows() -> None:
    """Flows over a link of capacity 0 have rate 0; others keep theirs."""
    assert max_min_rates([0.0, 4.0], [[0, 1], [1]], [inf, inf]) == [0.0, 4.0]


def exact_rates(
    capacities: Sequence[float], paths: Sequence[Sequence[int]], caps: Sequence[float]
) -> list[Fraction]:
    """Progressive filling in fractions, as plainly as possible."""
    rates: dict[int, Fraction] = {}
    while len(rates) < len(paths):
        levels = []
        for link in {link for path in paths for link in path}:
            flows = [flow for flow, path in enumerate(paths) if link in path]
            growing = [flow for flow in flows if flow not in rates]
            if growing:
                used = sum(rates[flow] for flow in flows if flow in rates)
                levels.append(((Fraction(capacities[link]) - used) / len(growing), growing))
        level, growing = min(levels, key=lambda pair: pair[0])
        slow = [flow for flow, cap in enumerate(caps) if flow not in rates and cap <= level]
        for flow in slow or growing:
            rates[flow] = Fraction(caps[flow]) if slow else level
    return [rates[flow] for flow in range(len(paths))]
