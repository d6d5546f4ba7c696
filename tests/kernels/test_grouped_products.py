"""Grouped products: what their groups' sizes do to the time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim_server.gpu import load_gpu
from sim_server.kernels import KernelTimer, Tier
from sim_server.kernels.flops import products_of
from sim_server.kernels.neighbours import place

_H100 = KernelTimer(load_gpu("h100"))
# Two products of a layer of experts each, and microseconds on H100 less 31 and 1.6 times the bytes
# that permutation and activation have to move (docs/accuracy-experts.md): tokens, experts of each,
# hidden and inner size, experts. Even loads.
# Source: ai-dynamo/aiconfigurator@095f58a (Apache-2.0).
_LAYERS_US = [
    ((64, 8, 4096, 1536, 128), 1600),
    ((64, 2, 6144, 16384, 8), 1610),
]


def grouped(sizes: list[int], n: int, k: int, **more: Any) -> dict[str, Any]:
    """Rows of each group."""
    shape = {"m": sum(sizes) // len(sizes), "n": n, "k": k, "batch": len(sizes)}
    types = {**dict.fromkeys("abcd", "bf16"), "compute": "f32"}
    known = {"along": "m", "group_sizes": sorted(sizes, reverse=True)}
    return {
        "kind": "gemm",
        "library": "cutlass",
        "grouped": True,
        **shape,
        **types,
        **known,
        **more,
    }


def time_ns(signature: dict[str, Any]) -> int:
    """On H100."""
    return _H100.time(signature).duration_ns


@pytest.mark.parametrize(("layer", "microseconds"), _LAYERS_US)
def test_measured_layers(layer: tuple[int, ...], microseconds: float) -> None:
    """Within 10 %."""
    tokens, top, hidden, inner, experts = layer
    sizes = [tokens * top // experts] * experts
    shapes = (2 * inner, hidden), (hidden, inner)
    found_ns = sum(time_ns(grouped(sizes, *shape)) for shape in shapes)
    assert found_ns / 1e3 == pytest.approx(microseconds, rel=0.1)


def test_weights_of_empty_groups_are_not_read() -> None:
    """A few rows take as long as the weights that they need."""
    all_ns = time_ns(grouped([1] * 64, 4096, 4096))
    assert time_ns(grouped([1] * 16 + [0] * 48, 4096, 4096)) == pytest.approx(all_ns / 4, rel=0.2)
    assert time_ns(grouped([16] * 4 + [0] * 60, 4096, 4096)) < all_ns / 8


def test_each_group_is_padded_to_tiles() -> None:
    """257 rows in a group take as many tiles of 256 or 128 as 384."""
    assert time_ns(grouped([257] * 64, 4096, 4096)) > 1.2 * time_ns(grouped([256] * 64, 4096, 4096))


def test_one_heavy_group_takes_no_longer_than_all_rows_at_once() -> None:
    """Its tiles spread over all multiprocessors; only weights that others need come on top."""
    even, heavy = (
        time_ns(grouped([1024] * 8, 4096, 4096)),
        time_ns(grouped([8192] + [0] * 7, 4096, 4096)),
    )
    assert heavy == pytest.approx(even, rel=0.1)
    uneven = time_ns(grouped([8185] + [1] * 7, 4096, 4096))
    assert even * 0.95 < uneven < 1.2 * even


@given(
    sizes=st.lists(st.integers(0, 5000), min_size=1, max_size=24),
    at=st.integers(0, 23),
    more=st.integers(1, 3000),
)
@settings(max_examples=60, deadline=None)
def test_more_rows_never_take_less_time(sizes: list[int], at: int, more: int) -> None:
    """Whichever group has them."""
    larger = [*sizes]
    larger[at % len(sizes)] += more
    assert time_ns(grouped(sizes, 2048, 1024)) <= time_ns(grouped(larger, 2048, 1024))


def test_sums_of_different_lengths() -> None:
    """Gradients of weights: blocks share the multiprocessors, but one block has all of its sum."""

    def sums(sizes: list[int], edge: int) -> int:
        return time_ns(grouped(sizes, 0, 0) | {"m": edge, "n": edge, "k": 1024, "along": "k"})

    even, heavy = [1024] * 8, [8192] + [0] * 7
    assert sums(heavy, 4096) == pytest.approx(sums(even, 4096), rel=0.1)
    assert sums(heavy, 128) > 2 * sums(even, 128)


def test_what_is_sure() -> None:
    """Known sizes in bf16 are modelled; groups taken to be equal, and FP8, of which nothing is
    measured, are assumed.
    """
    known = grouped([100, 28], 512, 512)
    unknown = {name: known[name] for name in known if name not in ("along", "group_sizes")}
    eight = known | {"a": "f8e4m3", "b": "f8e4m3"}
    assert [_H100.time(one).tier for one in (known, unknown, eight)] == [
        *(Tier.MODELLED, Tier.ASSUMED, Tier.ASSUMED)
    ]
    regions = [_H100.time(grouped(sizes, 512, 512)).region for sizes in ([1, 0, 0], [9], [900])]
    assert regions == ["grouped few", "grouped", "grouped many"]


@pytest.mark.parametrize(
    "changes", [{"group_sizes": [-1, 3]}, {"group_sizes": ["8"]}, {"along": "batch"}]
)
def test_impossible_sizes_are_refused(changes: dict[str, Any]) -> None:
    """They come from ranks."""
    with pytest.raises(ValueError, match="groups of sizes"):
        _H100.time(grouped([4, 4], 512, 512) | changes)


def test_operations_are_those_of_the_groups() -> None:
    """Not of a mean size that was rounded."""
    found = products_of(grouped([5, 2, 0], 32, 16))
    assert found is not None
    assert found.flops == 2 * 7 * 32 * 16


def test_measured_groups_are_neighbours_of_others() -> None:
    """A measurement of other sizes says something, too: a family does not depend on them."""
    families = {place(grouped(sizes, 512, 512))[0] for sizes in ([64, 64], [100, 28], [128, 0])}
    assert len(families) == 1
    assert len({json.dumps(place(grouped([64, 64], size, 512))[1]) for size in (512, 1024)}) == 2
