"""Distributions of which one knows how many different rows a batch has."""

from __future__ import annotations

import pytest

from sim_server.lookups.distributions import repeating, repeating_evenly, uniform


@pytest.mark.parametrize("distinct", [1, 100, 5_000, 9_000, 9_950])
def test_a_batch_has_as_many_different_rows(distinct: int) -> None:
    """Of a table of a million rows, of which 10,000 lookups touch 9,950 if all are alike."""
    assert repeating(1_000_000, 10_000, distinct).distinct(10_000) == pytest.approx(
        distinct, 0.02, 0.2
    )
    assert repeating_evenly(10_000, distinct).distinct(10_000) == pytest.approx(distinct, 0.02, 0.2)


def test_no_batch_has_more_than_one_drawn_evenly() -> None:
    """A permutation has more different rows than lookups that are independent."""
    assert repeating(10_000, 10_000, 10_000).distinct(10_000) == uniform(10_000).distinct(10_000)


def test_some_rows_are_more_frequent() -> None:
    """Where the table has far more rows than the batch: a cache of a few holds much of it."""
    frequent, even = repeating(1_000_000, 10_000, 5_000), repeating_evenly(10_000, 5_000)
    assert frequent.miss_rate(500) < 0.8 * even.miss_rate(500)
