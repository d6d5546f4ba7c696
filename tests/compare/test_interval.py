"""How sure a median is, and a ratio of two."""

from __future__ import annotations

import math
import random

import pytest

from phantora_py.compare.interval import Interval, speed_up, spread


def test_few_iterations_give_all_that_they_have() -> None:
    """Of two, the true median is between them as often as not; one says nothing."""
    assert spread([7]).interval is None
    assert spread([30, 10]).interval == Interval(10, 30, 0.5)
    assert spread([1, 2, 3, 4, 5]).interval == Interval(1, 5, 1 - 2 / 32)
    assert spread([6, 1, 2, 3, 4, 5]).interval == Interval(1, 6, 1 - 2 / 64)


def test_outliers_of_many_iterations_are_left_out() -> None:
    """Of nine, the second and the second to last: 95 % needs no more."""
    assert spread([1, 20, 21, 22, 23, 24, 25, 26, 900]).interval == Interval(20, 26, 1 - 20 / 512)


@pytest.mark.parametrize("count", [2, 5, 9, 30, 1001])
def test_the_interval_holds_the_true_median_as_often_as_it_says(count: int) -> None:
    """Of a distribution far from normal; its median is known."""
    rng = random.Random(count)
    held, rounds = 0, 1500 if count < 100 else 200
    confidence = 0.0
    for _ in range(rounds):
        found = spread([int(1e6 * rng.expovariate(1.0)) for _ in range(count)])
        assert found.interval is not None
        assert found.interval.low_ns <= found.median_ns <= found.interval.high_ns
        confidence = found.interval.confidence
        held += found.interval.low_ns <= 693147 <= found.interval.high_ns
    assert held / rounds == pytest.approx(confidence, abs=0.04)


def test_runs_whose_intervals_overlap_are_not_distinguishable() -> None:
    """Also where one lies within the other, or they touch."""
    first = spread([100, 110, 120, 130, 140])
    assert speed_up(first, spread([105, 125, 126])).distinguishable is False
    assert speed_up(first, spread([140, 150])).distinguishable is False
    assert speed_up(first, spread([200, 240])).distinguishable is True
    assert speed_up(first, spread([50])).distinguishable is None


def test_common_errors_of_models_cancel() -> None:
    """A class that is the same share of both says nothing about their ratio; one that only this
    run has says all, and on other models nothing cancels.
    """
    first, this = spread([100] * 9), spread([90] * 9)
    gemm = {"gemm": (0.1, 0.2)}
    same = speed_up(first, this, doubts=(gemm, gemm))
    assert (same.low, same.high, same.distinguishable) == (100 / 90, 100 / 90, True)
    more = speed_up(first, this, doubts=(gemm, gemm | {"norm": (0.05, 0.25)}))
    assert more.low == pytest.approx(100 / 90 / 1.25)
    assert more.high == pytest.approx(100 / 90 / 0.95)
    assert more.distinguishable is False
    other = speed_up(first, this, doubts=(gemm, gemm), common=False)
    both = math.hypot(math.log(0.9), math.log(1.2))
    assert other.low == pytest.approx(100 / 90 * math.exp(-both))
    assert other.high == pytest.approx(100 / 90 * math.exp(both))


def test_the_range_of_a_speed_up_holds_its_extremes() -> None:
    """Least of the one over most of the other; work of an iteration counts."""
    found = speed_up(spread([100, 110]), spread([50, 44]))
    assert (found.low, found.high) == (2.0, 2.5)
    assert found.value == pytest.approx(105 / 47)
    doubled = speed_up(spread([100, 110]), spread([50, 44]), work=2.0)
    assert (doubled.low, doubled.high) == (4.0, 5.0)
