"""What memory-bound kernels take: caches, rows, operands that are placed; a handful of published
times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sim_server.gpu import load_gpu
from sim_server.kernels import KernelTimer
from sim_server.kernels.work import Work

MakeLaunch = Callable[..., dict[str, Any]]
_NATIVE = "void at::native::"
_LAYER_NORM = (
    f"{_NATIVE}(anonymous namespace)::vectorized_layer_norm_kernel<float, float, false>(int)"
)
_INDEX_SELECT = (
    f"{_NATIVE}(anonymous namespace)::indexSelectLargeIndex<float, long, unsigned int, 2, 2, -2>"
    "(at::cuda::detail::TensorInfo<float, unsigned int>)"
)


def _softmax(kept: bool) -> str:
    kind = "Smem" if kept else ""
    return f"{_NATIVE}(anonymous namespace)::cunn_SoftMaxForward{kind}<4, float, float, float>(int)"


def _placed(number: str) -> str:
    functor = (
        f"at::native::BinaryFunctor<{number}, {number}, {number}, "
        "at::native::binary_internal::MulFunctor<float>>"
    )
    inner = f"gpu_kernel_impl_nocast<{functor}>(at::TensorIteratorBase&, {functor} const&)"
    return f"{_NATIVE}elementwise_kernel<128, 4, at::native::{inner}::{{lambda(int)#1}}>(int)"


@pytest.mark.parametrize(
    ("columns", "published_us"), [(1024, 34.1), (4096, 121.8), (8192, 257.6), (16384, 506.7)]
)
def test_layer_norms_of_4096_rows(
    timers: dict[str, KernelTimer], launch: MakeLaunch, columns: int, published_us: float
) -> None:
    """linkedin/Liger-Kernel@ead96b61 on A100, with the cache cleared and a launch: within 12 us and
    8 %.
    """
    timing = timers["a100"].time(launch(_LAYER_NORM, (4096, 1, 1), scalars=((0, columns),)))
    assert timing.duration_ns / 1e3 == pytest.approx(published_us, rel=0.08, abs=12)


@pytest.mark.parametrize(
    ("columns", "published_ms"), [(16384, 1.95), (32768, 5.32), (131072, 20.73)]
)
def test_softmax_before_a_cross_entropy(
    timers: dict[str, KernelTimer], launch: MakeLaunch, columns: int, published_ms: float
) -> None:
    """16,384 rows in f32, from the same source: the loss after it takes half a millisecond."""
    name = _softmax(kept=False)
    timing = timers["a100"].time(launch(name, (16384, 1, 1), (1024, 1, 1), ((3, columns),)))
    loss_ns = 16384 / 32 * 848
    assert (timing.duration_ns + loss_ns) / 1e6 == pytest.approx(published_ms, rel=0.1)


def test_rows_that_no_cache_holds_are_read_again(
    timers: dict[str, KernelTimer], launch: MakeLaunch
) -> None:
    """Four times the columns take far more than four times as long where rows leave the caches, and
    not where a block keeps its row.
    """

    def time_ns(columns: int, kept: bool) -> int:
        scalars = ((3, columns),)
        name = _softmax(kept)
        return timers["a100"].time(launch(name, (8192, 1, 1), (1024, 1, 1), scalars)).duration_ns

    assert time_ns(65536, kept=False) > 2.4 * time_ns(16384, kept=False) * 2
    assert time_ns(65536, kept=True) < 4 * time_ns(16384, kept=True)


def test_placing_operands_costs_the_same_in_any_type(
    timers: dict[str, KernelTimer], launch: MakeLaunch
) -> None:
    """A product with a broadcast factor is bound by the divisions that find its operands."""
    scalars = ((0, 1 << 26),)
    single, half = (
        timers["a100"].time(launch(_placed(number), (1 << 17, 1, 1), scalars=scalars)).duration_ns
        for number in ("float", "c10::BFloat16")
    )
    assert single == pytest.approx(half, rel=0.01)
    # 2 x 2^26 elements of rotations at sequence length 16,384: 7.4 ps an element.
    assert single / (1 << 26) == pytest.approx(7.4e-3, rel=0.03)


def test_embeddings_of_older_releases_are_bound_by_divisions(
    timers: dict[str, KernelTimer], launch: MakeLaunch
) -> None:
    """8 x 2,048 rows of 4,096 in f32: 858 us (linkedin/Liger-Kernel@ead96b61)."""
    total = 8 * 2048 * 4096
    scalars = ((3, 1), (4, 1), (5, total), (6, 4096))
    timing = timers["a100"].time(launch(_INDEX_SELECT, (864, 1, 1), scalars=scalars))
    assert timing.duration_ns / 1e3 == pytest.approx(858, rel=0.05)


def test_a_small_table_is_read_once(timers: dict[str, KernelTimer], launch: MakeLaunch) -> None:
    """Rows of a table that the L2 cache holds come from there."""
    name = f"{_NATIVE}vectorized_gather_kernel<16, long>(int)"
    small, large = (
        timers["h100"]
        .time(launch(name, (32768, 1, 1), scalars=((3, 16384), (4, 8192), (5, table))))
        .duration_ns
        for table in (1024, 1 << 20)
    )
    assert 1.5 * small < large


def test_what_is_in_the_cache_comes_faster() -> None:
    """Operands that a kernel before has written; not those of an optimizer, and not large ones."""
    gpu = load_gpu("a100")
    for size, gain in ((10 << 20, 1.3), (4 << 30, 1.001)):
        warm = Work(bytes=size)
        ratio = replace(warm, cold=True).duration_ns(gpu, 10**6) / warm.duration_ns(gpu, 10**6)
        assert ratio == pytest.approx(gain, rel=0.1 if gain > 1.1 else 1e-3)
    # 12 MB of operands of a residual addition: 6 us (microsoft/vidur@7d47513).
    assert Work(bytes=12e6).duration_ns(gpu, 10**6) == pytest.approx(6000, rel=0.1)
