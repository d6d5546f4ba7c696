"""What the accuracy suite adds to the models' intervals for whole trainings."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from spread import Outcome

SUITE = Path(__file__).parents[2] / "benchmarks" / "accuracy"


@pytest.fixture(autouse=True)
def suite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SUITE))


def outcome(truth: float, own: float = 0.0, family: str = "one") -> Outcome:
    """Of a run that took `truth` times as long as predicted; the models allowed for `own`."""
    from predict import Prediction  # noqa: PLC0415
    from published import BUILT_IN  # noqa: PLC0415
    from spread import Outcome  # noqa: PLC0415

    run = dataclasses.replace(BUILT_IN[0], family=family, seconds=truth)
    return Outcome(run, Prediction(1.0, 1.0, own, own, 0.0, 0.0, 1.0, {}))


def test_what_the_models_allow_for_needs_nothing() -> None:
    """Runs within their own intervals leave no spread."""
    from spread import fit  # noqa: PLC0415

    spread = fit([outcome(1.1, own=0.2), outcome(0.9, own=0.2)])
    assert (spread.below, spread.above) == (0.0, 0.0)


def test_the_spread_and_the_models_doubt_add_as_squares() -> None:
    """3, 4, 5: a run at the end of what is fitted to it is just within its interval."""
    from spread import fit  # noqa: PLC0415

    runs = [outcome(1.5, own=0.3)] * 20 + [outcome(0.8)] * 20
    spread = fit(runs)
    assert (spread.below, spread.above) == pytest.approx((0.2, 0.4))
    assert spread.holds(outcome(1.499, own=0.3))
    assert not spread.holds(outcome(1.501, own=0.3))
    assert not spread.holds(outcome(0.799))


def test_a_family_is_judged_by_the_others() -> None:
    """One that is off alone lies outside, and widens what the others are judged by."""
    from spread import held_out  # noqa: PLC0415

    runs = [outcome(1.1)] * 5 + [outcome(1.6, family="far")] * 5
    found = held_out(runs)
    assert found["far"][1] == 0
    assert found["far"][0].above == pytest.approx(0.1)
    assert found["one"][1] == 5


def test_the_sample_knows_no_result() -> None:
    """Which rows are taken follows from families, GPUs and order alone."""
    from published import BUILT_IN, sample  # noqa: PLC0415

    runs = [dataclasses.replace(BUILT_IN[0], batch=n, gpus=8 + 8 * (n % 2)) for n in range(12)]
    chosen = sample(runs, gpus=8, every=3)
    assert [run.batch for run in chosen] == [2, 8]
    slower = [dataclasses.replace(run, seconds=2 * run.seconds) for run in runs]
    assert [run.batch for run in sample(slower, gpus=8, every=3)] == [2, 8]
