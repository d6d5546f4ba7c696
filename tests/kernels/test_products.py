"""The matrix product model against published measurements, and its invariants."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim_server.gpu import load_gpu
from sim_server.kernels import KernelTimer, Tier

# (m, n, k) of row-major bf16 products and microseconds.
# Source: ai-dynamo/aiconfigurator@095f58a (Apache-2.0), medians over collectors.
_MEASURED_US = [
    ("a100", (16, 4096, 4096), 26.5),
    ("a100", (2048, 4096, 4096), 307.0),
    ("a100", (4096, 12288, 4096), 1675.5),
    ("a100", (8192, 8192, 8192), 4280.4),
    ("h100", (128, 4096, 4096), 15.8),
    ("h100", (2048, 4096, 4096), 90.7),
    ("h100", (4096, 12288, 4096), 530.6),
    ("h100", (8192, 8192, 8192), 1563.9),
    ("h200", (2048, 4096, 4096), 89.2),
    ("h200", (4096, 4096, 16384), 733.2),
    ("h200", (4096, 51200, 4096), 2526.0),
    ("h200", (8192, 8192, 128), 49.7),  # bound by what its blocks write
]
# Scales for 128 numbers along k, and for squares of so many.
_BLOCKS = {"scale_a": "vec128", "scale_b": "block128x128"}
_H100 = KernelTimer(load_gpu("h100"))


def _product(m: int, n: int, k: int, number: str = "bf16", **more: Any) -> dict[str, Any]:
    types = dict.fromkeys("abcd", number)
    return {"kind": "gemm", "m": m, "n": n, "k": k, "compute": "f32", **types, **more}


@pytest.mark.parametrize(("gpu", "shape", "microseconds"), _MEASURED_US)
def test_measured_products(
    timers: dict[str, KernelTimer], gpu: str, shape: tuple[int, int, int], microseconds: float
) -> None:
    """Reference products are within 10 %, which is about the ninth decile of the fit's error."""
    rows, columns, depth = shape
    timing = timers[gpu].time(_product(columns, rows, depth))
    assert timing.duration_ns / 1e3 == pytest.approx(microseconds, rel=0.10)
    assert timing.tier is Tier.MODELLED


@given(
    shape=st.tuples(*[st.integers(1, 20000)] * 3),
    axis=st.integers(0, 2),
    more=st.integers(1, 5000),
)
@settings(max_examples=60, deadline=None)
def test_more_work_never_takes_less_time(shape: tuple[int, int, int], axis: int, more: int) -> None:
    """A larger extent never makes a product faster."""
    m, n, k = (size + more * (position == axis) for position, size in enumerate(shape))
    assert _H100.time(_product(*shape)).duration_ns <= _H100.time(_product(m, n, k)).duration_ns


@pytest.mark.parametrize("gpu", ["a100", "h100", "h200", "b200"])
@pytest.mark.parametrize("number", ["bf16", "f16", "f32", "f64", "f8e4m3"])
def test_never_above_the_peak(timers: dict[str, KernelTimer], gpu: str, number: str) -> None:
    """No product exceeds the dense peak rate, at any size."""
    profile = load_gpu(gpu)
    for size in (512, 4096, 16384):
        timing = timers[gpu].time(_product(size, size, size, number))
        assert 2 * size**3 / timing.duration_ns <= profile.peak_flops_per_ns(number)


def test_tf32_only_where_asked(timers: dict[str, KernelTimer]) -> None:
    """Single precision runs on tensor cores only if the compute type says so."""
    plain = timers["h100"].time(_product(4096, 4096, 4096, "f32")).duration_ns
    fast = timers["h100"].time(_product(4096, 4096, 4096, "f32", compute="tf32")).duration_ns
    assert plain > 5 * fast


# Of output layers whose columns do not begin where vectors do; and of TF32 across k. Milliseconds.
# Source: NVIDIA H100 80GB HBM3, driver 580.159.04, CUDA 13.0, PyTorch 2.11.0, by CUPTI.
@pytest.mark.parametrize(
    ("number", "layout", "shape", "measured_ms"),
    [
        ("bf16", "TN", (50257, 16384, 768), 13.36),
        ("bf16", "NT", (768, 50257, 16384), 8.41),
        ("bf16", "NN", (768, 16384, 50257), 9.02),
        ("bf16", "TN", (30522, 16384, 768), 3.28),
        ("bf16", "NN", (768, 4096, 30522), 0.80),
        ("tf32", "TN", (4096, 4096, 4096), 0.334),
        ("tf32", "NT", (4096, 4096, 4096), 0.521),
        ("tf32", "NT", (768, 50304, 8192), 2.39),
    ],
)
def test_layouts_that_tensor_cores_cannot_read(
    timers: dict[str, KernelTimer],
    number: str,
    layout: str,
    shape: tuple[int, int, int],
    measured_ms: float,
) -> None:
    """Products take up to seven times as long."""
    m, n, k = shape
    dimensions = {"lda": k if layout[0] == "T" else m, "ldb": n if layout[1] == "T" else k}
    kind = {"compute": "tf32"} if number == "tf32" else {}
    product = _product(m, n, k, "f32" if number == "tf32" else number, **kind)
    product |= {**dimensions, "ldc": m, "transa": layout[0], "transb": layout[1]}
    timing = timers["h100"].time(product)
    assert timing.duration_ns / 1e6 == pytest.approx(measured_ms, rel=0.12)
    assert timing.interval is not None
    assert timing.interval.low <= 1e6 * measured_ms / timing.duration_ns <= timing.interval.high


def test_alignment_matters_less_where_tensor_cores_are_slower(
    timers: dict[str, KernelTimer],
) -> None:
    """On A100 they are half as fast, and pairs of numbers are read nearly as fast as vectors."""
    ratios = {}
    for gpu in ("a100", "h100"):
        even, aligned = (
            timers[gpu].time(_product(m, 8192, 768) | {"ldc": m}).duration_ns
            for m in (30522, 30528)
        )
        ratios[gpu] = even / aligned
    assert 1 <= ratios["a100"] < 0.65 * ratios["h100"]


def test_batched_f32_has_one_kernel_on_ampere(timers: dict[str, KernelTimer]) -> None:
    """Half of a tile of 128 x 128 is empty in products of 64 columns, which so take as long as
    those of 128; on Hopper there are smaller tiles.
    """
    ratios = {}
    for gpu in ("a100", "h100"):
        wide, narrow = (
            timers[gpu].time(_product(columns, 2048, 2048, "f32", batch=32)).duration_ns
            for columns in (128, 64)
        )
        ratios[gpu] = wide / narrow
    assert ratios["a100"] == pytest.approx(1, abs=0.02)
    assert ratios["h100"] > 1.5


def test_f32_walks_k_in_steps_of_eight(timers: dict[str, KernelTimer]) -> None:
    """Not of 64: 96 takes three quarters of 128."""
    deep, flat = (
        timers["a100"].time(_product(2048, 2048, depth, "f32", batch=64)).duration_ns
        for depth in (1280, 960)
    )
    assert flat == pytest.approx(0.75 * deep, rel=0.02)


@pytest.mark.parametrize(
    ("gpu", "scales", "ratio"), [("h100", {}, 4), ("h100", _BLOCKS, 4), ("b200", _BLOCKS, 4)]
)
def test_fp8_does_not_split_long_sums(
    timers: dict[str, KernelTimer], gpu: str, scales: dict[str, str], ratio: float
) -> None:
    """One block's walk decides on Hopper, and wherever scales are of blocks; bf16 is split."""
    short, long = (
        timers[gpu].time(_product(256, 256, depth, "f8e4m3", **scales)).duration_ns
        for depth in (4096, 32768)
    )
    assert long > ratio * short
    short, long = (
        timers[gpu].time(_product(256, 256, depth)).duration_ns for depth in (4096, 32768)
    )
    assert long < ratio * short


def test_scales_of_blocks_cost(timers: dict[str, KernelTimer]) -> None:
    """Most of what FP8 gains on L40S, where long products slow down besides, a fifth on Hopper,
    nothing on Blackwell.
    """
    ratios = {}
    for gpu in ("l40s", "h200", "b200"):
        plain, scaled = (
            timers[gpu].time(_product(8192, 8192, 8192, "f8e4m3", **scales)).duration_ns
            for scales in ({}, _BLOCKS)
        )
        ratios[gpu] = scaled / plain
    assert ratios == pytest.approx({"l40s": 1.7, "h200": 1.2, "b200": 1.0}, rel=0.05)


def test_few_blocks_of_f32_may_be_split(timers: dict[str, KernelTimer]) -> None:
    """Not one multiprocessor's walk: k is split where the tiles are for few of them."""
    short, long = (
        timers["a100"].time(_product(64, 64, depth, "f32")).duration_ns for depth in (1024, 16384)
    )
    assert long < 8 * short


@pytest.mark.parametrize(("columns", "microseconds"), [(768, 296), (3072, 1160)])
def test_gradients_of_weights_in_f32_are_split(
    timers: dict[str, KernelTimer], columns: int, microseconds: float
) -> None:
    """Where k lies across in both operands, few tiles of a long sum keep an H100 busy; with other
    layouts they do not. Measured: ViT's step there (docs/accuracy-operators.md).
    """
    gradient, other = (
        timers["h100"].time(_product(768, columns, 12608, "f32", **layout)).duration_ns
        for layout in ({"transa": "N", "transb": "T"}, {"transa": "T", "transb": "N"})
    )
    assert gradient / 1000 == pytest.approx(microseconds, rel=0.12)
    assert other > 1.4 * gradient


@pytest.mark.parametrize(
    ("sizes", "microseconds"),
    [((7168, 4352, 32), 37.4), ((2560, 8192, 64), 29.6), ((5120, 2560, 128), 24.4)],
)
def test_large_caches_keep_results(
    timers: dict[str, KernelTimer], sizes: tuple[int, int, int], microseconds: float
) -> None:
    """Of up to 60 MB on L40S, faster than its memory is. Source: ai-dynamo/aiconfigurator@095f58a
    (Apache-2.0).
    """
    assert timers["l40s"].time(_product(*sizes)).duration_ns / 1000 == pytest.approx(
        microseconds, rel=0.2
    )


def test_batches_and_accumulation_cost(timers: dict[str, KernelTimer]) -> None:
    """A batch costs more than one product and less than as many launches; reading C costs."""
    timer = timers["h100"]
    one = timer.time(_product(256, 256, 256)).duration_ns
    many = timer.time(_product(256, 256, 256, batch=64)).duration_ns
    assert one < many < 64 * one
    thin = _product(8192, 8192, 64)
    assert timer.time({**thin, "beta": True}).duration_ns > timer.time(thin).duration_ns


def test_an_unknown_type_is_assumed(timers: dict[str, KernelTimer]) -> None:
    """A type without a peak rate on the GPU lowers the tier: A100 has no FP8."""
    assert timers["a100"].time(_product(64, 64, 64, "f8e4m3")).tier is Tier.ASSUMED


@pytest.mark.parametrize(("columns", "depth", "measured_us"), [(4096, 1024, 4.7), (128, 8192, 7.6)])
def test_a_vector_needs_no_alignment(
    timers: dict[str, KernelTimer], columns: int, depth: int, measured_us: float
) -> None:
    """A matrix and a vector in bf16 take what its bytes take, within the third of what an H100
    measured (PyTorch 2.11, CUDA 13.0, driver 580.159.04), operands in the cache.
    """
    product = {"kind": "gemm", "library": "cublas", "m": 1, "n": columns, "k": depth, "batch": 1}
    product |= {"transa": "N", "transb": "N", "lda": 1, "ldb": depth, "ldc": 1, "compute": "f32"}
    product |= dict.fromkeys("abcd", "bf16") | {"epilogue": "none", "beta": False}
    assert timers["h100"].time(product).duration_ns / 1000 == pytest.approx(measured_us, rel=0.33)
