"""The attention model against published FlashAttention-2 charts."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

import pytest

from sim_server.gpu import load_gpu
from sim_server.kernels import KernelTimer, Tier

MakeLaunch = Callable[..., dict[str, Any]]

_FORWARD = (
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<{d}, {m}, {n}, 4, false, false, "
    "cutlass::bfloat16_t, Flash_kernel_traits<{d}, {m}, {n}, 4, cutlass::bfloat16_t> >, false, "
    "{causal}, false, false, true, true, false, false>(pytorch_flash::Flash_fwd_params)"
)
_BACKWARD = (
    "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<{d}, "
    "{m}, {n}, 8, 2, 4, 2, false, false, cutlass::bfloat16_t, Flash_kernel_traits<{d}, {m}, {n}, "
    "8, cutlass::bfloat16_t> >, false, {causal}, false, false, true, true, false>"
    "(pytorch_flash::Flash_bwd_params)"
)
_DOT = (
    "void pytorch_flash::flash_bwd_dot_do_o_kernel<true, Flash_bwd_kernel_traits<{d}, {m}, {n}, 8, "
    "2, 4, 4, true, false, cutlass::bfloat16_t, Flash_kernel_traits<{d}, {m}, {n}, 8, "
    "cutlass::bfloat16_t> > >(pytorch_flash::Flash_bwd_params)"
)
_CONVERT = _DOT.replace("dot_do_o_kernel<true, ", "convert_dq_kernel<")

# Head size, heads, length, batch, causal, forward and backward: microseconds.
# Source: charts in the README of Dao-AILab/flash-attention@0251105.
_MEASURED_US = [
    ("h100", (128, 16, 2048, 8, False), "forward", 759.3),
    ("h100", (128, 16, 8192, 2, True), "forward", 1650.9),
    ("h100", (64, 32, 4096, 4, True), "forward", 967.9),
    ("h100", (128, 16, 2048, 8, True), "both", 1815.2),
    ("h100", (64, 32, 8192, 2, False), "both", 13089.4),
    ("a100", (128, 16, 2048, 8, True), "both", 3103.5),
    ("a100", (64, 32, 8192, 2, False), "both", 21990.2),
]


def _pass_us(
    timer: KernelTimer, launch: MakeLaunch, kernels: str, case: tuple[int, int, int, int, bool]
) -> float:
    head_dim, heads, length, batch, causal = case
    backward = kernels == "backward"
    queries, keys = (128, 128) if head_dim <= 64 else ((64, 128) if backward else (128, 64))
    sizes = {"batch": batch, "heads": heads, "kv_heads": heads, "head_dim": head_dim}
    sizes |= {"seqlen_q": length, "seqlen_k": length}
    total_ns = 0
    for name in [_BACKWARD, _DOT, _CONVERT] if backward else [_FORWARD]:
        text = name.format(d=head_dim, m=queries, n=keys, causal=str(causal).lower())
        side = keys if name is _BACKWARD else queries
        grid = (ceil(length / side), batch, heads)
        timing = timer.time(launch(text, grid, sizes=sizes))
        assert timing.kernel_class == "attention"
        assert timing.tier is Tier.MODELLED
        total_ns += timing.duration_ns
    return total_ns / 1e3


@pytest.mark.parametrize("point", _MEASURED_US)
def test_published_charts(
    timers: dict[str, KernelTimer],
    launch: MakeLaunch,
    point: tuple[str, tuple[int, int, int, int, bool], str, float],
) -> None:
    """Passes of FlashAttention-2 are within 12 %, the largest error over all published points."""
    gpu, case, kernels, microseconds = point
    total_us = _pass_us(timers[gpu], launch, "forward", case)
    if kernels == "both":
        total_us += _pass_us(timers[gpu], launch, "backward", case)
    assert total_us == pytest.approx(microseconds, rel=0.12)


def test_causal_is_cheaper(timers: dict[str, KernelTimer], launch: MakeLaunch) -> None:
    """A causal mask saves nearly half of a long pass and never costs."""
    full = _pass_us(timers["h100"], launch, "forward", (128, 16, 8192, 2, False))
    causal = _pass_us(timers["h100"], launch, "forward", (128, 16, 8192, 2, True))
    assert 0.5 * full < causal < 0.65 * full


_SPLIT = (
    "void pytorch_flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, false, "
    "false, cutlass::bfloat16_t, Flash_kernel_traits<128, 64, 128, 4, cutlass::bfloat16_t> >, "
    "{causal}, false, false, true, true, false, {split}, false>(pytorch_flash::Flash_fwd_params)"
)


def _split_us(timer: KernelTimer, launch: MakeLaunch, parts: int, heads: int = 4) -> float:
    """64 queries and 8,192 keys in `parts` parts, no mask."""
    queries, keys = 64, 8192
    sizes = {"batch": 1, "heads": heads, "kv_heads": heads, "head_dim": 128}
    sizes |= {"seqlen_q": queries, "seqlen_k": keys}
    grid = (ceil(queries / 64), *((parts, heads) if parts > 1 else (1, heads)))
    name = _SPLIT.format(causal="false", split=str(parts > 1).lower())
    return timer.time(launch(name, grid, sizes=sizes)).duration_ns / 1e3


def test_split_keys_share_a_strip(timers: dict[str, KernelTimer], launch: MakeLaunch) -> None:
    """A few strips over 8,192 keys are bound by their length: sixteen parts take a fraction, and no
    more than the multiprocessors have room for helps.
    """
    timer = timers["a100"]
    whole, halves, parts = (_split_us(timer, launch, n) for n in (1, 2, 16))
    assert halves == pytest.approx(whole / 2, rel=0.05)
    assert parts < whole / 8
    assert _split_us(timer, launch, 16, 512) == pytest.approx(
        _split_us(timer, launch, 1, 512), rel=0.2
    )


def test_split_keys_without_sizes(timers: dict[str, KernelTimer], launch: MakeLaunch) -> None:
    """The grid of a split pass has its parts where others have the batch."""
    name = _SPLIT.format(causal="false", split="true")
    guessed = timers["a100"].time(launch(name, (32, 4, 8)))
    sizes = {"batch": 2, "heads": 4, "seqlen_q": 2048, "seqlen_k": 2048, "head_dim": 128}
    known = timers["a100"].time(launch(name, (32, 4, 8), sizes=sizes))
    assert guessed.duration_ns == known.duration_ns


def test_decoding_is_bound_by_keys_and_values(
    timers: dict[str, KernelTimer], launch: MakeLaunch
) -> None:
    """One query for each of 64 sequences with 32 heads and 8,192 keys: 8.6 GB to read."""
    sizes = {"batch": 64, "heads": 32, "kv_heads": 32, "head_dim": 128}
    sizes |= {"seqlen_q": 1, "seqlen_k": 8192}
    name = _SPLIT.format(causal="false", split="false")
    timing = timers["a100"].time(launch(name, (1, 64, 32), sizes=sizes))
    moved = 2 * 2 * 64 * 32 * 8192 * 128
    assert timing.duration_ns >= moved / load_gpu("a100").bandwidth_bytes_per_ns


@pytest.mark.parametrize(("length", "region"), [(255, "short"), (256, "few")])
def test_short_passes_have_an_interval_of_their_own(
    timers: dict[str, KernelTimer], launch: MakeLaunch, length: int, region: str
) -> None:
    """Below 256 what starts a pass is much of it."""
    name = _FORWARD.format(d=128, m=128, n=64, causal="true")
    sizes = {"batch": 1, "heads": 1, "kv_heads": 1, "head_dim": 128}
    sizes |= {"seqlen_q": length, "seqlen_k": length}
    timing = timers["a100"].time(launch(name, (2, 1, 1), sizes=sizes))
    low, _, source = load_gpu("a100").intervals[f"attention forward {region}"]
    assert timing.region == f"forward {region}"
    assert timing.interval is not None
    assert (timing.interval.low, timing.interval.source) == (low, source)


def test_without_sizes_the_grid_is_a_guess(
    timers: dict[str, KernelTimer], launch: MakeLaunch
) -> None:
    """If the structure could not be read, lengths come from the grid and the tier says assumed."""
    name = _FORWARD.format(d=128, m=128, n=64, causal="true")
    guessed = timers["h100"].time(launch(name, (16, 8, 16)))
    sizes = {"batch": 8, "heads": 16, "seqlen_q": 2048, "seqlen_k": 2048, "head_dim": 128}
    known = timers["h100"].time(launch(name, (16, 8, 16), sizes=sizes))
    assert guessed.tier is Tier.ASSUMED
    assert guessed.duration_ns == known.duration_ns
