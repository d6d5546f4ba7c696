"""The timing of cuDNN's calls."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

from sim_server.gpu import load_gpu, profile_names
from sim_server.kernels import KernelTimer, Tier

# Head size, heads, length, batch, causal: microseconds of the forward pass on H100, with gaps.
# Source: NVIDIA H100 80GB HBM3, driver 580.159.04, CUDA 13.0, PyTorch 2.11.0, cuDNN 9.19, by CUPTI.
_MEASURED_US = [
    ((64, 12, 1024, 8, True), 45.9),
    ((64, 12, 1024, 8, False), 63.1),
    ((128, 32, 2048, 1, False), 111.6),
    ((128, 32, 4096, 2, True), 462.8),
    ((128, 32, 4096, 2, False), 807.2),
    ((128, 16, 8192, 1, False), 799.4),
    ((64, 16, 256, 32, False), 29.9),
]
# The same of a cuDNN of 2024.
# Source: the chart of FlashAttention-3 in Dao-AILab/flash-attention@0251105.
_CHART_US = [
    ((64, 32, 512, 32, False), 205.1),
    ((64, 32, 4096, 4, True), 757.2),
    ((128, 16, 4096, 4, False), 902.7),
    ((128, 16, 512, 32, True), 109.1),
    ((128, 16, 16384, 1, True), 2039.9),
    ((256, 8, 4096, 4, False), 946.2),
]


def _attention(
    head_dim: int, heads: int, length: int, batch: int, causal: bool, **more: Any
) -> dict[str, Any]:
    operand_bytes = 2 * batch * heads * length * head_dim
    return {
        "kind": "library",
        "library": "cudnn",
        "operation": "attention_forward",
        "type": "bf16",
        "batch": batch,
        "heads": heads,
        "kv_heads": heads,
        "seqlen_q": length,
        "seqlen_k": length,
        "head_dim": head_dim,
        "head_dim_v": head_dim,
        "causal": int(causal),
        "dropout": 0,
        "bias": 0,
        "bytes": 4 * operand_bytes,
        **more,
    }


def _convolution(operation: str, layout: str = "channels_last", **more: Any) -> dict[str, Any]:
    """The 3 x 3 convolution of ResNet-50's second stage, batch 256."""
    return {
        "kind": "library",
        "library": "cudnn",
        "operation": f"convolution_{operation}",
        "type": "f16",
        "compute": "f32",
        "layout": layout,
        "groups": 1,
        "x": [256, 128, 28, 28],
        "w": [128, 128, 3, 3],
        "y": [256, 128, 28, 28],
        "flops": 2 * 256 * 128 * 28 * 28 * 128 * 9,
        "bytes": 2 * (2 * 256 * 128 * 28 * 28 + 128 * 128 * 9),
        **more,
    }


_Point = tuple[tuple[int, int, int, int, bool], float]


@pytest.mark.parametrize("point", _MEASURED_US)
def test_forward_pass_on_hopper(timers: dict[str, KernelTimer], point: _Point) -> None:
    """cuDNN's forward pass is within 16 % of what was measured."""
    case, microseconds = point
    timing = timers["h100"].time(_attention(*case))
    assert timing.duration_ns / 1e3 == pytest.approx(microseconds, rel=0.16)
    assert (timing.kernel_class, timing.tier) == ("attention", Tier.MODELLED)


@pytest.mark.parametrize("point", _CHART_US)
def test_published_chart(timers: dict[str, KernelTimer], point: _Point) -> None:
    """Today's cuDNN takes less than that of 2024, by up to 27 %."""
    case, microseconds = point
    share = timers["h100"].time(_attention(*case)).duration_ns / 1e3 / microseconds
    assert 0.73 < share < 0.95


# Batch, heads, heads of keys, queries, keys.
@pytest.mark.parametrize(
    ("sizes", "microseconds"),
    [((32, 32, 32, 1, 2048), 352.4), ((8, 32, 8, 1, 8192), 95.2), ((16, 16, 16, 16, 1024), 27.0)],
)
def test_few_queries_take_what_they_read(
    timers: dict[str, KernelTimer], sizes: tuple[int, int, int, int, int], microseconds: float
) -> None:
    """Decoding reads keys and values once, for all heads that share them. Source: as above."""
    batch, heads, shared, queries, keys = sizes
    head_dim = 64 if queries > 1 else 128
    operands = 2 * head_dim * (2 * heads * queries + 2 * shared * keys) * batch
    given = {"kv_heads": shared, "seqlen_q": queries, "bytes": operands}
    timing = timers["h100"].time(_attention(head_dim, heads, keys, batch, False, **given))
    assert timing.duration_ns / 1e3 == pytest.approx(microseconds, rel=0.12)


def test_rates_that_nobody_measured_are_assumed(timers: dict[str, KernelTimer]) -> None:
    """On B200 no attention is measured."""
    forward = _attention(128, 16, 4096, 4, True)
    assert timers["b200"].time(forward).tier is Tier.ASSUMED


def test_backward_pass_on_hopper(timers: dict[str, KernelTimer]) -> None:
    """As measured on an NVIDIA H200 (driver 580.159.04, cuDNN 9.19), with its kernels' gaps."""
    backward = {**_attention(128, 32, 4096, 2, True), "operation": "attention_backward"}
    timing = timers["h200"].time(backward)
    assert timing.duration_ns / 1e3 == pytest.approx(1404.6, rel=0.07)
    assert timing.tier is Tier.MODELLED


@pytest.mark.parametrize("gpu", profile_names())
@pytest.mark.parametrize(("operation", "products"), [("forward", 2), ("backward", 5)])
def test_attention_stays_below_the_peak(
    timers: dict[str, KernelTimer], gpu: str, operation: str, products: int
) -> None:
    """Long passes reach between a third and four fifths of the tensor cores' peak rate."""
    call = _attention(128, 16, 16384, 1, False, operation=f"attention_{operation}")
    flops = 2 * products * 16 * 16384**2 * 128
    share = flops / timers[gpu].time(call).duration_ns / load_gpu(gpu).peak_flops_per_ns("bf16")
    assert 1 / 3 < share < 4 / 5


def test_masks_dropout_and_queries(timers: dict[str, KernelTimer]) -> None:
    """A causal mask saves and starts in the corner; dropout and a bias cost and are assumed."""
    time = timers["h100"].time
    case = (128, 16, 4096, 4)
    full, causal = time(_attention(*case, False)), time(_attention(*case, True))
    assert 0.5 * full.duration_ns < causal.duration_ns < 0.65 * full.duration_ns
    for more in ({"dropout": 1}, {"bias": 1}):
        slower = time(_attention(*case, False, **more))
        assert slower.duration_ns > full.duration_ns
        assert slower.tier is Tier.ASSUMED
    # Keys that no query may look at cost nothing.
    longer = time(_attention(*case, True, seqlen_k=8192))
    assert longer.duration_ns == causal.duration_ns


def test_one_query_is_bound_by_memory(timers: dict[str, KernelTimer]) -> None:
    """A short pass over many keys takes at least the time to read them."""
    call = _attention(128, 32, 1, 64, False, seqlen_k=32768, bytes=2 * 2 * 64 * 32 * 32768 * 128)
    least_ns = call["bytes"] / load_gpu("h100").bandwidth_bytes_per_ns
    assert timers["h100"].time(call).duration_ns > least_ns


@pytest.mark.parametrize("gpu", profile_names())
@pytest.mark.parametrize("operation", ["forward", "dgrad", "wgrad"])
def test_convolutions_stay_below_the_peak(
    timers: dict[str, KernelTimer], gpu: str, operation: str
) -> None:
    """A convolution reaches between a tenth and three quarters of the peak rate."""
    call = _convolution(operation)
    timing = timers[gpu].time(call)
    share = call["flops"] / timing.duration_ns / load_gpu(gpu).peak_flops_per_ns("f16")
    assert 0.1 < share < 0.75
    assert (timing.kernel_class, timing.tier) == ("convolution", Tier.ASSUMED)


def test_layout_and_arithmetic_of_convolutions(timers: dict[str, KernelTimer]) -> None:
    """Converting the layout costs; single precision is slower, without TF32 much more so."""
    time = timers["h100"].time
    fast = time(_convolution("forward")).duration_ns
    assert time(_convolution("forward", "contiguous")).duration_ns > fast
    tf32 = time(_convolution("forward", type="f32", compute="tf32")).duration_ns
    plain = time(_convolution("forward", type="f32")).duration_ns
    assert fast < tf32 < plain / 4


@pytest.mark.parametrize(
    ("sizes", "microseconds"),
    [((47, 187, 1622, 8), 609), ((35, 1329, 297, 9), 1691), ((11, 1187, 87, 20), 732)],
)
def test_published_convolutions_in_f32(
    timers: dict[str, KernelTimer], sizes: tuple[int, int, int, int], microseconds: float
) -> None:
    """Winograd's algorithm on an A100 (sitar-lab/NeuSight@6945927), within the 90th percentile."""
    images, channels, filters, edge = sizes
    x, y = [images, channels, edge, edge], [images, filters, edge, edge]
    window = [filters, channels, 3, 3]
    call = _convolution("forward", type="f32", x=x, y=y, w=window)
    call["bytes"] = 4 * (prod(x) + prod(y) + prod(window))
    assert timers["a100"].time(call).duration_ns / 1e3 == pytest.approx(microseconds, rel=0.45)
    backward = call | {"operation": "convolution_dgrad", "x": y, "y": x}
    backward["w"] = [channels, filters, 3, 3]
    assert timers["a100"].time(backward).duration_ns == timers["a100"].time(call).duration_ns


# By channels, edge, window, stride and how often: batches of 64 and 128.
CONVNEXT = 64, [(96, 56, 7, 1, 3), (192, 28, 7, 1, 3), (384, 14, 7, 1, 9), (768, 7, 7, 1, 3)]
EFFICIENTNET = (
    128,
    [
        *((32, 112, 3, 1, 1), (96, 112, 3, 2, 1), (144, 56, 3, 1, 1), (144, 56, 5, 2, 1)),
        *((240, 28, 5, 1, 1), (240, 28, 3, 2, 1), (480, 14, 3, 1, 2), (480, 14, 5, 1, 1)),
        *((672, 14, 5, 1, 2), (672, 14, 5, 2, 1), (1152, 7, 5, 1, 3), (1152, 7, 3, 1, 1)),
    ],
)


@pytest.mark.parametrize(
    ("network", "operation", "microseconds"),
    [
        (CONVNEXT, "forward", 1288),
        (CONVNEXT, "dgrad", 2434),
        (CONVNEXT, "wgrad", 950),
        (EFFICIENTNET, "forward", 1064),
        (EFFICIENTNET, "dgrad", 2359),
        (EFFICIENTNET, "wgrad", 1152),
    ],
)
def test_depthwise_convolutions(
    timers: dict[str, KernelTimer],
    network: tuple[int, list[tuple[int, ...]]],
    operation: str,
    microseconds: float,
) -> None:
    """All of a step on an H100 (benchmarks/real_gpu), with the gaps between them."""
    images, layers = network
    total_ns = 0
    for channels, edge, window, stride, number in layers:
        x = [images, channels, edge, edge]
        y = [images, channels, edge // stride, edge // stride]
        w = [channels, 1, window, window]
        call = _convolution(operation, groups=channels, type="bf16", x=x, y=y, w=w)
        call["bytes"] = 2 * (prod(x) + prod(y))
        total_ns += number * timers["h100"].time(call).duration_ns
    assert total_ns / 1e3 == pytest.approx(microseconds, rel=0.15)


def test_large_windows_in_f32_are_direct(timers: dict[str, KernelTimer]) -> None:
    """Gradients of filters of 7 x 7 for channels by themselves take what they do in ConvNeXt-B's
    step on an H100, but for the largest images (benchmarks/real_gpu).
    """
    total_ns = 0
    for channels, edge, number in ((256, 28, 3), (512, 14, 27), (1024, 7, 3)):
        x, w = [32, channels, edge, edge], [channels, 1, 7, 7]
        call = _convolution("wgrad", groups=channels, type="f32", x=x, y=x, w=w)
        total_ns += number * timers["h100"].time(call | {"bytes": 8 * prod(x)}).duration_ns
    assert total_ns / 1e6 == pytest.approx(35.07, rel=0.05)


def test_gradients_of_filters_in_tf32_lie_across(timers: dict[str, KernelTimer]) -> None:
    """They take what they did on an H100, longer than their images', which lie along the sum. On
    Ampere both are the same.
    """
    x, w = [4, 256, 128, 128], [256, 256, 3, 3]
    calls = {
        operation: _convolution(operation, type="f32", compute="tf32", groups=1, x=x, y=x, w=w)
        | {"bytes": 8 * prod(x)}
        for operation in ("dgrad", "wgrad")
    }
    found = {
        gpu: [timers[gpu].time(call).duration_ns for call in calls.values()]
        for gpu in ("h100", "a100")
    }
    assert found["h100"][1] / 1e3 == pytest.approx(428.6, rel=0.12)
    assert found["h100"][1] > 1.3 * found["h100"][0]
    assert found["a100"][1] < 1.2 * found["a100"][0]


# Channels, edge, window, stride, filters and groups: what 64 images take in the forward pass.
@pytest.mark.parametrize(
    ("sizes", "number", "microseconds"),
    [
        pytest.param((96, 112, 3, 2, 96, 96), "f32", 126.9, id="channels by themselves"),
        pytest.param((144, 56, 3, 1, 144, 144), "f32", 91.6, id="channels by themselves, small"),
        pytest.param((3, 256, 3, 1, 64, 1), "bf16", 675.6, id="few channels"),
    ],
)
def test_channels_last_of_an_h100(
    timers: dict[str, KernelTimer],
    sizes: tuple[int, int, int, int, int, int],
    number: str,
    microseconds: float,
) -> None:
    """Channels by themselves take what they move, few ones the tiles of a short sum. Source: as
    above; the last one of 16 images twice as high and wide.
    """
    channels, edge, window, stride, filters, groups = sizes
    x = [64, channels, edge, edge]
    y = [64, filters, edge // stride, edge // stride]
    w = [filters, channels // groups, window, window]
    call = _convolution("forward", groups=groups, type=number, compute="f32", x=x, y=y, w=w)
    call["bytes"] = {"f32": 4, "bf16": 2}[number] * (prod(x) + prod(y))
    found = timers["h100"].time(call)
    assert found.duration_ns / 1e3 == pytest.approx(microseconds, rel=0.2)


def test_groups_that_are_no_power_of_two_are_spread_out(timers: dict[str, KernelTimer]) -> None:
    """All of the images goes through kernels of its own, twice. Source: as above, the step of
    RegNetY-3.2GF, whose 57 calls for 474 million elements took 13.8 ms of them.
    """
    elements, took_us = 64 * 216 * 28 * 28, []
    for width in (24, 32):
        groups = 216 // 24
        x = [64, groups * width, 28, 28]
        call = _convolution("forward", type="bf16", groups=groups, x=x, y=x)
        call |= {"w": [groups * width, width, 3, 3], "bytes": 4 * prod(x)}
        took_us.append(timers["h100"].time(call).duration_ns / 1e3)
    assert took_us[0] - took_us[1] == pytest.approx(13_790 / 3 * 2 * elements / 474e6, rel=0.2)


def test_a_step_of_two_pixels_is_no_winograd(timers: dict[str, KernelTimer]) -> None:
    """It is a quarter of the product, without transforms, and no window of 1 x 1 has them."""
    whole = timers["a100"].time(_convolution("forward", type="f32")).duration_ns
    halved = _convolution("forward", type="f32", y=[256, 128, 14, 14])
    direct = timers["a100"].time(_convolution("wgrad", type="f32")).duration_ns
    assert whole < direct  # the same multiply-adds
    assert timers["a100"].time(halved).duration_ns > whole / 4


@pytest.mark.parametrize(
    "operation", ["batch_norm_forward_training", "batch_norm_backward", "graph"]
)
def test_the_rest_moves_bytes(timers: dict[str, KernelTimer], operation: str) -> None:
    """Batch normalisation and graphs without a name take at least the time of their bytes."""
    call = {"kind": "library", "library": "cudnn", "operation": operation, "type": "f16"}
    timing = timers["h100"].time({**call, "bytes": 10**9})
    assert timing.duration_ns >= 10**9 / load_gpu("h100").bandwidth_bytes_per_ns
    assert timing.tier is Tier.ASSUMED


@pytest.mark.parametrize(
    ("operation", "channels", "pixels", "measured_us"),
    [
        ("forward_training", 64, 12544, (159.7, 467.5)),
        ("backward", 64, 12544, (241.2, 1206.1)),
        ("forward_training", 256, 3136, (177.9, 206.9)),
        ("backward", 256, 3136, (262.7, 374.4)),
    ],
)
def test_batch_norms_of_cudnn(
    timers: dict[str, KernelTimer],
    operation: str,
    channels: int,
    pixels: int,
    measured_us: tuple[float, float],
) -> None:
    """Channels last and channels first, measured on an H200 (driver 580.159.04, cuDNN of PyTorch
    2.11.0) by CUPTI. Where the layout is not told it is between, and as far off as the interval
    says.
    """
    call = {
        "kind": "library",
        "library": "cudnn",
        "operation": f"batch_norm_{operation}",
        "type": "f32",
        "batch": 64,
        "channels": channels,
        "pixels": pixels,
        "bytes": 4 * 64 * channels * pixels * (3 if operation == "backward" else 2),
    }
    time = timers["h200"].time
    last, first = measured_us
    for layout, measured in (("channels_last", last), ("contiguous", first)):
        told_us = time({**call, "layout": layout}).duration_ns / 1000
        assert told_us == pytest.approx(measured, rel=0.08)
    timing = time(call)
    assert 0.95 * last < timing.duration_ns / 1000 < 1.05 * first
    assert timing.interval is not None
    for measured in measured_us:
        ratio = 1000 * measured / timing.duration_ns
        assert timing.interval.low <= ratio <= timing.interval.high


def test_ctc_losses_take_steps(timers: dict[str, KernelTimer]) -> None:
    """The steps of a CTC loss wait for each other: twice as many take nearly twice as long."""
    call = {"kind": "library", "library": "cudnn", "operation": "ctc_loss", "type": "f32"}
    sizes = {"batch": 16, "channels": 32, "labels": 20, "bytes": 1000}
    time = timers["h100"].time
    one, two = (time({**call, **sizes, "seqlen": steps}) for steps in (500, 1000))
    assert 1.9 < two.duration_ns / one.duration_ns < 2
    assert one.tier is Tier.ASSUMED


def test_gradients_of_samples_add_to_four_pixels(timers: dict[str, KernelTimer]) -> None:
    """They take four times as long; both are modelled in single precision, and else assumed."""
    call = {"kind": "library", "library": "cudnn", "type": "f32", "batch": 8, "channels": 128}
    call |= {"pixels": 64 * 64, "points": 64 * 64, "bytes": 8 * 128 * 64 * 64 * 4 * 3}
    time = timers["h100"].time
    there, back = (
        time({**call, "operation": f"sampling_{way}"}) for way in ("forward", "backward")
    )
    assert 3.5 < back.duration_ns / there.duration_ns < 4
    assert there.tier is back.tier is Tier.MODELLED
    halves = time({**call, "operation": "sampling_forward", "type": "f16"})
    assert halves.tier is Tier.ASSUMED
