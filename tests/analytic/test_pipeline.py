"""Pipelines by hand: when every stage computes, and the bubble, to the nanosecond.

The forward pass of a micro-batch takes `forward` ns on every stage, its backward pass `backward`.
A transfer over boundary b takes x_b, less than either; it waits for nothing but its sender, since
receives are posted early and every direction of a boundary has a stream of its own.
"""

from __future__ import annotations

from itertools import accumulate

import pytest
from analytic_runs import run_program
from by_hand import send_between_ns, send_inside_ns
from phantora_runs import Run
from sections import Interval, Section, back_to_back, duration_ns

pytestmark = pytest.mark.torch

# Of the program.
MICRO_BATCHES, ITERATIONS, MESSAGE_BYTES = 8, 3, 200_000
INSIDE_NS, BETWEEN_NS = send_inside_ns(MESSAGE_BYTES), send_between_ns(MESSAGE_BYTES)
FORWARD, BACKWARD = ", SoftMaxForwardEpilogue", ", LogSoftMaxForwardEpilogue"
# By name: ranks and what a transfer from each to the next takes.
PIPELINES = {
    "four": ([0, 1, 2, 3], [INSIDE_NS, BETWEEN_NS, INSIDE_NS]),
    "two": ([1, 2], [BETWEEN_NS]),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_program(tmp_path_factory.mktemp("pipeline"), "pipeline")


@pytest.fixture(scope="module")
def forward(run: Run) -> int:
    return duration_ns(run.data, FORWARD)


@pytest.fixture(scope="module")
def backward(run: Run) -> int:
    return duration_ns(run.data, BACKWARD)


def repeated(intervals: list[Interval], period_ns: int) -> list[Interval]:
    """The same in every iteration."""
    return [
        (start + turn * period_ns, end + turn * period_ns)
        for turn in range(ITERATIONS)
        for start, end in intervals
    ]


@pytest.mark.parametrize("name", PIPELINES)
def test_gpipe(run: Run, forward: int, backward: int, name: str) -> None:
    """m micro-batches, p stages: (m + p - 1) (forward + backward), and every boundary twice.

    Stage s starts when the first micro-batch has come through s stages and boundaries; from then on
    it is busy to the end of its forward passes. Backwards the same from the other end.
    """
    ranks, transfers_ns = PIPELINES[name]
    stages, way_ns = len(ranks), [0, *accumulate(transfers_ns)]
    assert max(transfers_ns) < min(forward, backward)
    turn_ns = (MICRO_BATCHES + stages - 1) * forward + way_ns[-1]
    iteration_ns = turn_ns + (MICRO_BATCHES + stages - 1) * backward + way_ns[-1]
    case = Section(run.data, f"gpipe {name}")
    assert case.ends_ns[ranks[0]] == [iteration_ns * turn for turn in range(1, ITERATIONS + 1)]
    for stage, rank in enumerate(ranks):
        first_ns = stage * forward + way_ns[stage]
        ahead = back_to_back(first_ns, MICRO_BATCHES * [forward])
        last_ns = turn_ns + (stages - 1 - stage) * backward + way_ns[-1] - way_ns[stage]
        back = back_to_back(last_ns, MICRO_BATCHES * [backward])
        assert case.kernels(rank, FORWARD) == repeated(ahead, iteration_ns)
        assert case.kernels(rank, BACKWARD) == repeated(back, iteration_ns)


def test_the_bubble(run: Run, forward: int, backward: int) -> None:
    """Every stage of a GPipe idles (p - 1) (forward + backward), and while the ends wait."""
    ranks, transfers_ns = PIPELINES["four"]
    case = Section(run.data, "gpipe four")
    iteration_ns = case.ends_ns[0][0]
    bubble_ns = 3 * (forward + backward) + 2 * sum(transfers_ns)
    for rank in ranks:
        busy_ns = sum(end - start for start, end in case.kernels(rank)) // ITERATIONS
        assert iteration_ns - busy_ns == bubble_ns


def schedule(stage: int, stages: int) -> list[tuple[str, int]]:
    """1F1B: a stage runs ahead by as many micro-batches as stages follow it."""
    ahead = stages - stage - 1
    order = [("forward", i) for i in range(ahead)]
    for i in range(ahead, MICRO_BATCHES):
        order += [("forward", i), ("backward", i - ahead)]
    return order + [("backward", i) for i in range(MICRO_BATCHES - ahead, MICRO_BATCHES)]


def one_forward_one_backward(
    transfers_ns: list[int], durations_ns: dict[str, int]
) -> list[dict[str, list[Interval]]]:
    """Per stage, when its passes run: each after the one before it and after its input has come."""
    stages = len(transfers_ns) + 1
    todo = [schedule(stage, stages) for stage in range(stages)]
    ends: dict[tuple[str, int, int], int] = {}
    free_ns = [0] * stages
    intervals: list[dict[str, list[Interval]]] = [{"forward": [], "backward": []} for _ in todo]
    while any(todo):
        for stage, passes in enumerate(todo):
            if not passes:
                continue
            direction, i = passes[0]
            source = stage - 1 if direction == "forward" else stage + 1
            input_ns = 0
            if 0 <= source < stages:
                if (direction, i, source) not in ends:
                    continue
                input_ns = ends[direction, i, source] + transfers_ns[min(stage, source)]
            start_ns = max(free_ns[stage], input_ns)
            free_ns[stage] = ends[direction, i, stage] = start_ns + durations_ns[direction]
            intervals[stage][direction].append((start_ns, free_ns[stage]))
            passes.pop(0)
    return intervals


@pytest.mark.parametrize("name", PIPELINES)
def test_one_forward_one_backward(run: Run, forward: int, backward: int, name: str) -> None:
    """Every pass runs when its input and its stage allow it.

    With two stages the first one waits for the way there and back once per two micro-batches, so
    that the bubble grows with their number, which GPipe's does not.
    """
    ranks, transfers_ns = PIPELINES[name]
    expected = one_forward_one_backward(transfers_ns, {"forward": forward, "backward": backward})
    iteration_ns = expected[0]["backward"][-1][1]
    if name == "two":
        bubble_ns = forward + backward + MICRO_BATCHES * BETWEEN_NS
        assert iteration_ns == MICRO_BATCHES * (forward + backward) + bubble_ns
    case = Section(run.data, f"one_forward_one_backward {name}")
    assert case.ends_ns[ranks[0]] == [iteration_ns * turn for turn in range(1, ITERATIONS + 1)]
    for rank, passes in zip(ranks, expected, strict=True):
        assert case.kernels(rank, FORWARD) == repeated(passes["forward"], iteration_ns)
        assert case.kernels(rank, BACKWARD) == repeated(passes["backward"], iteration_ns)
