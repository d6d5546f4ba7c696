"""Expressions of what the blocks of a launch do."""

from __future__ import annotations

import pytest

from sim_server.kernels.blocks import over_blocks


def test_the_sum_over_blocks() -> None:
    """Arguments by their parameter, the block's index in three dimensions, the grid."""
    assert over_blocks("12", {}, (4, 2, 1)) == 96
    assert over_blocks("p3 * max(0, p1 - x)", {1: 2, 3: 10}, (4, 1, 1)) == 10 * (2 + 1)
    assert over_blocks("x + 10 * y + 100 * z", {}, (2, 3, 2)) == 6 + 10 * 12 + 100 * 6
    assert over_blocks("8 * 1 / nx", {}, (16, 5, 1)) == 8 * 5
    assert over_blocks("(x < 3) * 7 % 4 // 2", {}, (8, 1, 1)) == 3


def test_many_blocks_are_looked_at_here_and_there() -> None:
    """Of a large grid some stand for all, whatever its rows are."""
    rows, columns = 4096, 512
    found = over_blocks("(x < 128) * (y < 1024)", {}, (columns, rows, 1))
    assert found == pytest.approx(128 * 1024, rel=0.15)


def test_what_cannot_be_known() -> None:
    """An argument that is not there, a division by zero, less than nothing."""
    assert over_blocks("p1 - 2", {1: 1}, (1, 1, 1)) is None
    assert over_blocks("p2 + 1", {1: 1}, (1, 1, 1)) is None
    assert over_blocks("1 / (p1 - p1)", {1: 1}, (1, 1, 1)) is None


@pytest.mark.parametrize(
    "expression",
    [
        *("", "1 +", "(" * 300, "q", "max", "p1(2, 3)", "max(1)", "max(1, 2, key=min)", "2 ** 99"),
        *("__import__('os')", "p1.real", "(lambda: 1)()", "'a' * 9", "[1][0]", "p1 if x else 2"),
    ],
)
def test_what_is_no_expression(expression: str) -> None:
    """Records are read from files: nothing in them is run."""
    with pytest.raises(ValueError, match="what a block does"):
        over_blocks(expression, {1: 1}, (1, 1, 1))
