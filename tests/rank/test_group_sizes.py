"""The sizes of the groups of a product, from where they end."""

from __future__ import annotations

import pytest

from phantora_py.rank.grouped_products import group_sizes


@pytest.mark.parametrize(
    ("ends", "sizes"),
    [
        ([4, 4, 10], (6, 4, 0)),
        ([], ()),
        ([4, 3, 10], ()),  # never written
    ],
)
def test_sizes_are_the_largest_first(ends: list[int], sizes: tuple[int, ...]) -> None:
    """Equal sets of sizes are one signature."""
    assert group_sizes(ends) == sizes
