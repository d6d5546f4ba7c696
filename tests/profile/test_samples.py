"""Which samples of a series count."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from phantora_py.profile.calls import Refusal
from phantora_py.profile.samples import difference, series, without_outliers


def test_an_interruption_is_left_out() -> None:
    """One sample that took twice as long; clocks that drift by a percent stay."""
    quiet = [100.0, 100.5, 101.0, 99.5, 100.2]
    assert without_outliers([*quiet, 230.0]) == quiet
    assert without_outliers(quiet) == quiet
    assert without_outliers([100.0] * 5 + [101.9]) == [100.0] * 5 + [101.9]


def test_a_series_goes_on_until_enough_samples_count() -> None:
    """Outliers are counted; what never settles is kept as it is, after three rounds."""

    def sampler(*samples: float) -> Iterator[float]:
        yield from samples

    values = sampler(100, 100, 900, 100, 500, 100, 100, 100, 100, 100)
    assert series(lambda: next(values), 5) == ([100.0] * 8, 2)
    restless = sampler(*(100 + 2 * number for number in range(50)))
    assert series(lambda: next(restless), 9) == ([100.0 + 2 * number for number in range(27)], 0)


def test_a_difference_that_is_none_is_refused() -> None:
    """A time of 0 or less is not a measurement; outliers of both are counted."""
    whole = {"warm_ns": [30.0, 32.0], "cold_ns": [50.0], "outliers": 1}
    part = {"warm_ns": [9.0, 10.0, 12.0], "cold_ns": [20.0], "outliers": 2}
    assert difference(whole, part) == {"warm_ns": [20.0, 22.0], "cold_ns": [30.0], "outliers": 3}
    with pytest.raises(Refusal, match="too little time"):
        difference(whole, {**part, "cold_ns": [50.0]})
