"""Loads of experts: each gets its share of the choices, and no token one expert twice."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phantora_py.rank.expert_load import ExpertLoad, borders, shares

WEIGHTS = st.lists(st.floats(0, 1e6), min_size=1, max_size=12).filter(any)


def parts(weights: tuple[float, ...], tokens: int, top: int) -> list[int]:
    """How many choices each expert gets."""
    return [end - begin for begin, end in itertools.pairwise([0, *borders(weights, tokens, top)])]


@given(WEIGHTS, st.data())
def test_shares(weights: list[float], data: st.DataObject) -> None:
    """They are a whole, none is more than all tokens, and a heavier expert has no less."""
    top = data.draw(st.integers(1, len(weights)))
    found = shares(weights, top)
    assert sum(found) == 1
    assert all(0 <= share <= Fraction(1, top) for share in found)
    ranked = sorted(zip(weights, found, strict=True))
    assert [share for _, share in ranked] == sorted(found)


@given(WEIGHTS, st.integers(1, 300), st.data())
def test_no_token_has_an_expert_twice(
    weights: list[float], tokens: int, data: st.DataObject
) -> None:
    """Choice j of token t is at j * tokens + t."""
    top = data.draw(st.integers(1, len(weights)))
    sizes = parts(tuple(weights), tokens, top)
    chosen = [expert for expert, size in enumerate(sizes) for _ in range(size)]
    assert len(chosen) == tokens * top
    assert all(len(set(chosen[token::tokens])) == top for token in range(tokens))


def test_by_hand() -> None:
    """Shares are rounded, cut where a token would go twice, and passed on by weight."""
    assert parts((1, 1, 1, 1), 10, 2) == [5, 5, 5, 5]
    assert parts((1, 1, 1), 10, 1) == [3, 3, 4]
    assert parts((6, 3, 1), 100, 1) == [60, 30, 10]
    assert parts((6, 3, 1), 100, 2) == [100, 75, 25]
    assert parts((5, 0, 0), 100, 2) == [100, 50, 50]
    assert parts((0, 0, 1), 8, 1) == [0, 0, 8]


def test_what_is_said_of_how_many(tmp_path: Path) -> None:
    """Zipf's law of any number, weights of their own only; ranks read what was written."""
    zipf = ExpertLoad("zipf:2", exponent=2.0)
    assert zipf.of(3) == pytest.approx((1, 1 / 4, 1 / 9))
    weights = ExpertLoad("loads.txt", weights=(1.0, 2.0))
    assert (weights.of(2), weights.of(3)) == ((1.0, 2.0), None)
    for load in (zipf, weights, ExpertLoad()):
        load.write(tmp_path)
        assert ExpertLoad.read(tmp_path) == load
