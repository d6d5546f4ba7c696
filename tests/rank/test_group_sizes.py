"""Grouped products: the sizes of their groups, from where these end, and releases without them."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import pytest

from phantora_py.rank.grouped_products import group_sizes, operators


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
    "there", [[], ["_scaled_grouped_mm"], ["_grouped_mm", "_scaled_grouped_mm"]]
)
def test_a_release_has_the_operators_that_it_has(there: list[str]) -> None:
    """PyTorch 2.6 has none, 2.7 the scaled one."""
    torch = ModuleType("torch")
    torch.ops = SimpleNamespace(aten=SimpleNamespace(**dict.fromkeys(there)))  # type: ignore[attr-defined]
    assert operators(torch) == there
