"""Grouped products: the sizes of their groups, from where these end, and releases without them."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType, SimpleNamespace

import pytest

from phantora_py.rank.grouped_products import even_ends, group_sizes, operators


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


@pytest.mark.parametrize(
    ("left", "right", "ends"),
    [
        ((30, 8), (4, 8, 2), [7, 15, 22, 30]),
        ((4, 2, 8), (8, 30), [7, 15, 22, 30]),
        ((2, 30), (30, 8), [7, 15, 22, 30]),
    ],
)
def test_groups_of_one_size(left: Sequence[int], right: Sequence[int], ends: list[int]) -> None:
    """Of the rows, the columns, or what is summed."""
    tensors = [SimpleNamespace(shape=shape, dim=shape.__len__) for shape in (left, right, (4,))]
    assert even_ends(*tensors) == ends


@pytest.mark.parametrize(
    "there", [[], ["_scaled_grouped_mm"], ["_grouped_mm", "_scaled_grouped_mm"]]
)
def test_a_release_has_the_operators_that_it_has(there: list[str]) -> None:
    """PyTorch 2.6 has none, 2.7 the scaled one."""
    torch = ModuleType("torch")
    torch.ops = SimpleNamespace(aten=SimpleNamespace(**dict.fromkeys(there)))  # type: ignore[attr-defined]
    assert operators(torch) == there
