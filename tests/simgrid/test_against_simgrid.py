"""Our flows end when SimGrid's do, where the models coincide: max-min, no latency.

Needs SimGrid's Python package, which is built from source:

    apt install cmake g++ libboost-dev && nox -s simgrid
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
import simpy
from random_problems import cap_bytes_per_s, make_problem
from simgrid_flows import is_installed, solve

from sim_server.network import Demand, FlowNetwork

PROBLEMS = 240
# Of a flow's duration.
TOLERANCE = 1e-3

pytestmark = [
    pytest.mark.simgrid,
    pytest.mark.skipif(not is_installed(), reason="SimGrid is not installed: nox -s simgrid"),
]


@pytest.fixture(scope="module")
def simgrid_ends_s() -> list[list[float]]:
    """End of every flow of every problem, by SimGrid."""
    results = solve([make_problem(seed) for seed in range(PROBLEMS)])
    ends_s: list[list[float]] = results["ends_s"]
    assert len(ends_s) == PROBLEMS
    return ends_s


def our_ends_s(problem: dict[str, Any]) -> list[float]:
    """The same by `FlowNetwork`."""
    env = simpy.Environment()
    network = FlowNetwork(env, problem["capacities"])
    ends_ns = [-1] * len(problem["flows"])

    def send(position: int, flow: dict[str, Any]) -> Generator[simpy.Event, Any, None]:
        yield env.timeout(round(flow["start_s"] * 1e9))
        demand = Demand(tuple(flow["path"]), flow["size_bytes"], cap_bytes_per_s(flow))
        (ends_ns[position],) = yield network.start([demand]).done

    for position, flow in enumerate(problem["flows"]):
        env.process(send(position, flow))
    env.run()
    return [end_ns / 1e9 for end_ns in ends_ns]


def worst_error(problem: dict[str, Any], ours_s: list[float], theirs_s: list[float]) -> float:
    """Largest difference of a duration, relative to SimGrid's."""
    starts_s = [float(flow["start_s"]) for flow in problem["flows"]]
    return max(
        abs(our_s - their_s) / (their_s - start_s)
        for start_s, our_s, their_s in zip(starts_s, ours_s, theirs_s, strict=True)
    )


@pytest.mark.parametrize("seed", range(PROBLEMS))
def test_ends_are_equal(simgrid_ends_s: list[list[float]], seed: int) -> None:
    """Every flow ends within 0.1 % of its duration of when it ends in SimGrid."""
    problem = make_problem(seed)
    assert worst_error(problem, our_ends_s(problem), simgrid_ends_s[seed]) < TOLERANCE


def test_a_wrong_capacity_is_noticed(simgrid_ends_s: list[list[float]]) -> None:
    """The comparison can fail: with links 1 % slower most problems differ."""
    different = 0
    for seed in range(20):
        problem = make_problem(seed)
        slower = {**problem, "capacities": [0.99 * one for one in problem["capacities"]]}
        error = worst_error(problem, our_ends_s(slower), simgrid_ends_s[seed])
        different += error > TOLERANCE
    assert different > 10
