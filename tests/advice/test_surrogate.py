"""What runs of some configurations say of the others."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from phantora_py.advice.surrogate import Surrogate

VALUES = [
    {"batch": batch, "layout": layout, "checkpoint": checkpoint, "steps": 4}
    for batch, layout, checkpoint in itertools.product((1, 2, 4, 8), "abc", (True, False))
]
SPACE = Surrogate(VALUES)


def loss(number: int) -> float:
    """A product of what each value does."""
    values = VALUES[number]
    of_layout = {"a": 1.0, "b": 1.3, "c": 1.1}[str(values["layout"])]
    of_checkpoint = 1.25 if values["checkpoint"] else 1.0
    return of_layout * of_checkpoint * math.exp(-0.3 * math.log(float(str(values["batch"]))))


def test_products_are_foretold() -> None:
    """From a third of the configurations the others, as closely as is said."""
    seen = {number: loss(number) for number in range(0, len(VALUES), 3)} | {1: loss(1)}
    mean, deviation = SPACE.predict(seen)
    for number in range(len(VALUES)):
        assert abs(mean[number] - math.log(loss(number))) < 3 * deviation[number] + 0.01
        if number in seen:
            assert deviation[number] < 0.005
    best = min(range(len(VALUES)), key=loss)
    assert np.argmin(mean) == best


def test_what_values_have_that_do_not_differ() -> None:
    """Nothing: `steps` is the same in all."""
    assert SPACE.differing == 3


def test_the_first_are_far_from_each_other() -> None:
    """Most is learned where least is known."""
    unknown = SPACE.unknown([0])
    assert unknown[0] < 0.02 * max(unknown)
    far = VALUES[int(np.argmax(unknown))]
    assert all(far[name] != VALUES[0][name] for name in ("batch", "layout", "checkpoint"))


def test_improvement_is_none_where_nothing_is_left() -> None:
    """If all has been seen, nothing is better than the best."""
    assert max(SPACE.improvement({number: loss(number) for number in range(24)})) < 1e-3


def test_what_fits() -> None:
    """A larger batch than one that did not fit does not either, and a smaller one does."""
    too_much = [number for number, one in enumerate(VALUES) if one["batch"] == 4]
    peaks = {number: 0.2 for number, one in enumerate(VALUES) if one["batch"] == 1}
    likely = SPACE.fitting(peaks, too_much)
    for number, one in enumerate(VALUES):
        if one["batch"] == 8:
            assert likely[number] < 0.2
        elif one["batch"] == 1:
            assert likely[number] > 0.99
    assert min(SPACE.fitting(peaks, [])) == 1
    assert min(SPACE.fitting({}, too_much)) == 1


@pytest.mark.parametrize("values", [[{"a": 1}], [{"a": [1]}, {"a": [2]}], [{}, {"a": 0}]])
def test_values_of_any_kind(values: list[dict[str, object]]) -> None:
    """One configuration; lists of words; a value that only some have; a zero."""
    one = Surrogate(values)
    mean, deviation = one.predict({0: 2.0})
    assert mean[0] == pytest.approx(math.log(2.0))
    assert len(deviation) == len(values)
    assert (one.unknown([]) > 0).all()
