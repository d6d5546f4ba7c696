"""Calls of cuDNN: its fused attention, convolutions, batch normalisation, recurrent networks, and
graphs that have no name.

One signature is one call, also where the library launches several kernels. Coefficients and errors:
docs/kernels.md.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod
from statistics import geometric_mean
from typing import cast

from sim_server.gpu import GpuProfile
from sim_server.gpu.profile import PassRates
from sim_server.kernels.attention import Strips, pass_ns, pass_region, share_of_longest
from sim_server.kernels.gemm import Product, number_bytes, product_ns, tf32_across
from sim_server.kernels.recurrent import is_recurrent, time_recurrent
from sim_server.kernels.timing import Tier, Timing
from sim_server.kernels.winograd import single_ns
from sim_server.kernels.work import Work
from sim_server.records.payloads import (
    Attention,
    BatchNorm,
    Convolution,
    CtcLoss,
    CudnnSignature,
    DropoutStates,
    OperationGraph,
    Recurrent,
    Sampling,
)

_FORWARD_TILE, _BACKWARD_TILE = (256, 128), (128, 128)
_FORWARD_PRODUCTS, _BACKWARD_PRODUCTS = 2, 5
# Heads wider than 128: eight points of the chart to which the rates were fitted.
_WIDE_SLOWDOWN = 1.26
# The forward pass of so few queries splits the keys over blocks: what it reads bounds it. On an
# H100, of 1 and 16 queries (docs/accuracy-operators.md).
_FEW_QUERIES = 16
_DROPOUT_SLOWDOWN = 1.2  # assumed: a random number per score
_BIAS_SLOWDOWN = 1.1  # assumed: a score more to read
# Beside the products: the row sums read dO and O, dQ is summed in single precision and converted.
_BACKWARD_HELPER_BYTES = 14
# Assumed, of a matrix product of the same sizes: operands are gathered, not streamed.
_CONVOLUTION_EFFICIENCY = 0.75
# Kernels that convert layouts: their share of a streaming kernel's rate, and cycles of a
# multiprocessor for a byte. Fitted to the step of VGG-16 on H100 and on H200.
_CONVERTING, _CONVERTING_CYCLES = 0.8, 0.22
_VECTOR_PIXELS = 8
# A call converts or pads both operands and the result: of two of these kernels what they take
# however little there is to do. On H100.
_CONVERSIONS_NS = 2 * 1800
# Images of fewer channels than a load takes, in 16 and in 32 bits, are padded to so many; a tile of
# 128 x 64 results of so short a sum takes so long beside it. Fitted to the forward pass of one
# shape on an H100 (docs/accuracy-operators.md).
_LOADED_CHANNELS = {2: 8, 4: 4}
_SHORT_TILE_NS, _SHORT_TILE = 2000, 128 * 64
# Groups of channels that are no power of two are spread out to one, in 16 bits: cycles of a
# multiprocessor for an element. Fitted to the step of RegNetY-3.2GF on an H100.
_SPREAD_CYCLES = 2.5
_HALF_BYTES = 2
# A channel by itself, channels last: cycles of a multiprocessor for an element
# of either image, and for each product of one with a weight. Fitted to the steps of EfficientNet-B0
# and ConvNeXt-T in 16 bits on H200 (docs/accuracy-operators.md).
_DEPTHWISE_CYCLES = {
    "convolution_forward": (0.068, 0.047),
    "convolution_dgrad": (0.29, 0.082),
    "convolution_wgrad": (0.20, 0.0285),
}
# Gradients of larger windows in f32 have no such kernel: cycles for a product of those that do it
# directly. Fitted to windows of 7 x 7 in the step of ConvNeXt-B on H100; 3 x 3 is as above.
_DIRECT_CYCLES = 1.69
_LARGEST_WINDOW = 5 * 5  # assumed
# By layout, channels first and last: cycles of a multiprocessor for an element. Channels first a
# block has a channel, and takes at least so many ns for each of its elements. Fitted to norms in
# f32 of images of 7 to 112 pixels a side on H200, of volumes of 3 to 128 channels on H100, and what
# is beside (docs/accuracy-operators.md). Inference: assumed.
_NORM_CYCLES = {
    "batch_norm_forward_training": (1.05, 0.80),
    "batch_norm_backward": (1.94, 1.25),
}
_NORM_OPERANDS = {"batch_norm_forward_training": 2, "batch_norm_backward": 3}
_CHANNEL_NS = {"batch_norm_forward_training": 0.53, "batch_norm_backward": 1.47}
_NORM_START_NS = 8000
# Assumed: every step of the variables of a CTC loss is a barrier of a block and a trip to memory.
_CTC_STEP_NS = 500
# Of a bilinear sample: each addition to one is a write. Cycles of a multiprocessor for a sample, at
# random places, with its gradient's scaling: fitted to images of 56 and 112 pixels a side on H100
# (docs/accuracy-operators.md).
_SAMPLE_PIXELS = 4
_SAMPLE_CYCLES = {"sampling_forward": 5.0, "sampling_backward": 19.4}


def time_cudnn(signature: CudnnSignature, gpu: GpuProfile) -> Timing:
    """The timing of a {"kind": "library", "library": "cudnn"} payload."""
    operation = str(signature["operation"])
    if operation.startswith("attention"):
        return _time_attention(cast(Attention, signature), gpu)
    if operation.startswith("convolution"):
        return _time_convolution(cast(Convolution, signature), gpu)
    if is_recurrent(operation):
        return time_recurrent(cast(Recurrent, signature), gpu)
    if operation.startswith("batch_norm"):
        return _time_batch_norm(cast(BatchNorm, signature), gpu)
    rest = cast("DropoutStates | CtcLoss | Sampling | OperationGraph", signature)
    rate = gpu.peak_flops_per_ns(rest["type"])
    flops = cast(int, rest.get("flops", 0))
    arithmetic_ns = flops / (0.6 * rate)  # assumed share of the peak
    serial_ns = arithmetic_ns
    if operation == "ctc_loss":
        serial_ns += (
            2 * _CTC_STEP_NS * cast(CtcLoss, rest)["seqlen"]
        )  # forward and backward variables
    if operation in _SAMPLE_CYCLES:
        return _time_samples(cast(Sampling, rest), gpu)
    work = Work(bytes=rest["bytes"], serial_ns=serial_ns, cold=True)
    return Timing(
        duration_ns=ceil(work.duration_ns(gpu, gpu.sm_count)),
        tier=Tier.ASSUMED,
        kernel_class="library",
        name=f"cudnn {operation}",
        sm_demand=1.0,
    )


def _time_samples(signature: Sampling, gpu: GpuProfile) -> Timing:
    """Of a grid's samples; gradients are added to the pixels of the image."""
    operation = str(signature["operation"])
    samples = signature["batch"] * signature["channels"] * signature["points"]
    added = samples * _SAMPLE_PIXELS * number_bytes(signature["type"])
    moved = signature["bytes"] + (added if operation == "sampling_backward" else 0)
    work = Work(bytes=moved, cycles=samples * _SAMPLE_CYCLES[operation], cold=True)
    return Timing(
        duration_ns=ceil(work.duration_ns(gpu, gpu.sm_count)),
        tier=Tier.MODELLED if signature["type"] == "f32" else Tier.ASSUMED,
        kernel_class="other",
        name=f"cudnn {operation}",
        sm_demand=1.0,
        region="images",
    )


def _time_batch_norm(signature: BatchNorm, gpu: GpuProfile) -> Timing:
    """Of a layout that is not told, in older data files, the middle of both."""
    operation = str(signature["operation"])
    if operation.endswith("inference"):
        durations_ns = [Work(bytes=signature["bytes"], cold=True).duration_ns(gpu, gpu.sm_count)]
    else:
        durations_ns = [
            _training_norm_ns(signature, is_last, gpu)
            for is_last in (False, True)
            if signature.get("layout") is None
            or is_last == (signature["layout"] == "channels_last")
        ]
    return Timing(
        duration_ns=ceil(geometric_mean(durations_ns)),
        tier=Tier.ASSUMED,
        kernel_class="norm",
        name=f"cudnn {operation}",
        sm_demand=1.0,
        region="of channels" if signature.get("layout") else "of either layout",
    )


def _training_norm_ns(signature: BatchNorm, is_last: bool, gpu: GpuProfile) -> float:
    operation = str(signature["operation"])
    operand_bytes = signature["bytes"] / _NORM_OPERANDS[operation]
    elements = operand_bytes / number_bytes(signature["type"])
    cycles = elements * _NORM_CYCLES[operation][is_last]
    if not is_last and signature.get("channels"):
        channel_ns = elements / signature["channels"] * _CHANNEL_NS[operation]
        cycles = max(cycles, channel_ns * gpu.cycles_per_ns * gpu.sm_count)
    work = Work(bytes=signature["bytes"], cycles=cycles, serial_ns=_NORM_START_NS, cold=True)
    return work.duration_ns(gpu, gpu.sm_count)


def _time_attention(signature: Attention, gpu: GpuProfile) -> Timing:
    backward = signature["operation"] == "attention_backward"
    rates = gpu.fused_attention.backward if backward else gpu.fused_attention.forward
    products = _BACKWARD_PRODUCTS if backward else _FORWARD_PRODUCTS
    strips = attention_strips(signature, backward)
    slowdown, sound = _slowdown(signature, gpu)
    compute_ns = pass_ns(
        strips, _slowed(rates, slowdown), products, gpu.fused_attention.latency_ns, gpu.sm_count
    )
    if not backward and signature["seqlen_q"] <= _FEW_QUERIES:
        compute_ns = gpu.fused_attention.latency_ns
    share = share_of_longest(signature)
    memory_ns = signature["bytes"] / gpu.bandwidth_bytes_per_ns
    helper_bytes = 0
    if backward:
        rows = strips.heads * signature["seqlen_q"]
        helper_bytes = rows * signature["head_dim"] * _BACKWARD_HELPER_BYTES
    work = Work(bytes=helper_bytes, efficiency=0.8, serial_ns=max(compute_ns * share, memory_ns))
    blocks = strips.tiles()[0] * strips.heads
    mask = " causal" if signature["causal"] else ""
    direction = "backward" if backward else "forward"
    return Timing(
        duration_ns=ceil(work.duration_ns(gpu, gpu.sm_count)),
        tier=Tier.MODELLED if sound and share == 1 and not rates.assumed else Tier.ASSUMED,
        kernel_class="attention",
        name=f"cudnn {signature['operation']} {signature['type']} d{signature['head_dim']}{mask}",
        sm_demand=min(1.0, blocks / gpu.sm_count),
        region=f"fused {direction} {pass_region(blocks, gpu.sm_count, strips.length)}",
    )


def attention_strips(signature: Attention, backward: bool = False) -> Strips:
    """Strips of queries, in the backward pass too: strips of keys are the same triangle turned."""
    queries, keys = signature["seqlen_q"], signature["seqlen_k"]
    causal = bool(signature["causal"])
    # The mask starts in the corner: keys beyond the last query are never looked at.
    if causal:
        keys = min(keys, queries)
    wide, deep = signature["head_dim_v"], signature["head_dim"]
    tile_rows, tile_columns = _BACKWARD_TILE if backward else _FORWARD_TILE
    weights = (3, 2) if backward else (1, 1)  # products as deep as Q, and as V
    return Strips(
        rows=queries,
        columns=keys,
        tile_rows=tile_rows,
        tile_columns=tile_columns,
        head_dim=ceil((weights[0] * deep + weights[1] * wide) / sum(weights)),
        heads=signature["batch"] * signature["heads"],
        causal=causal,
        corner=True,
    )


def attention_slowdown(head_dim: int) -> float:
    """How much slower a multiply-add is in heads of this size than in those of 64 and 128."""
    return _WIDE_SLOWDOWN if head_dim > 128 else 1.0


def _slowdown(signature: Attention, gpu: GpuProfile) -> tuple[float, bool]:
    """How much slower than the fitted case, and whether that is known rather than assumed."""
    number = str(signature["type"])
    slowdown = gpu.peak_flops_per_ns("bf16") / gpu.peak_flops_per_ns(number)
    slowdown *= attention_slowdown(signature["head_dim"])
    if signature["dropout"]:
        slowdown *= _DROPOUT_SLOWDOWN
    if signature["bias"]:
        slowdown *= _BIAS_SLOWDOWN
    plain = not signature["dropout"] and not signature["bias"]
    return slowdown, plain and number in ("f16", "bf16")


def _slowed(rates: PassRates, slowdown: float) -> PassRates:
    return replace(
        rates,
        sm_flops_per_ns=rates.sm_flops_per_ns / slowdown,
        softmax_ns=rates.softmax_ns * slowdown,
    )


def _time_convolution(signature: Convolution, gpu: GpuProfile) -> Timing:
    """As the matrix product that it is equivalent to; other layouts than channels last are
    converted first where tensor cores do the work.
    """
    if _is_depthwise(signature):
        return _convolution(signature, _depthwise_ns(signature, gpu))
    number = convolution_type(signature)
    slowdown = gpu.peak_flops_per_ns("bf16") / gpu.peak_flops_per_ns(number)
    if number == "tf32" and _is_across(signature):
        slowdown *= tf32_across(gpu)
    traffic_bytes = signature["bytes"]
    m, n, k = _product_sizes(signature)
    product = Product(
        m, n, k, signature["groups"], traffic_bytes, slowdown / _CONVOLUTION_EFFICIENCY
    )
    single, rates, padding_bytes = None, gpu.gemm, _padding_bytes(signature)
    if padding_bytes:
        product = replace(product, traffic_bytes=traffic_bytes + padding_bytes)
    if padding_bytes and signature["operation"] == "convolution_forward":
        rates = replace(rates, tile_ns=_SHORT_TILE_NS, tile_results=_SHORT_TILE)
    if number == "f32":
        single = single_ns(
            signature, Product(m, n, k, signature["groups"], traffic_bytes, 1.0), gpu
        )
    duration_ns, blocks = single or product_ns(product, rates, gpu.sm_count)
    if padding_bytes:
        padding = Work(
            bytes=padding_bytes, serial_ns=_CONVERSIONS_NS, efficiency=_CONVERTING, cold=True
        )
        duration_ns += padding.duration_ns(gpu, gpu.sm_count)
    if _is_spread(signature):
        elements = prod(signature["x"]) + prod(signature["y"])
        spreading = Work(bytes=2 * traffic_bytes, cycles=elements * _SPREAD_CYCLES, cold=True)
        duration_ns += spreading.duration_ns(gpu, gpu.sm_count)
    if _is_converted(signature):
        converting = Work(
            bytes=2 * signature["bytes"],
            cycles=signature["bytes"] * _CONVERTING_CYCLES,
            serial_ns=_CONVERSIONS_NS,
            efficiency=_CONVERTING,
            cold=True,
        )
        duration_ns += converting.duration_ns(gpu, gpu.sm_count)
    demand = min(1.0, blocks / gpu.sm_count)
    return _convolution(signature, duration_ns, demand, "f32" if single else "")


def _convolution(
    signature: Convolution, duration_ns: float, sm_demand: float = 1.0, region: str = ""
) -> Timing:
    sizes = "x".join(map(str, signature["x"]))
    window = "x".join(map(str, signature["w"]))
    return Timing(
        duration_ns=ceil(duration_ns),
        tier=Tier.ASSUMED,
        kernel_class="convolution",
        name=f"cudnn {signature['operation']} {signature['type']} {sizes} by {window}",
        sm_demand=sm_demand,
        region=region,
    )


def _is_across(signature: Convolution) -> bool:
    """Whether pixels, which a gradient of filters sums over, lie across in both operands: they do
    with channels last, which windows of more than one pixel are computed in.
    """
    return signature["operation"] == "convolution_wgrad" and prod(signature["w"][2:]) > 1


def _is_converted(signature: Convolution) -> bool:
    """Whether kernels of their own bring the operands to channels last, and the result back: the
    tensor cores want that, but where the pixels of a channel are the columns of a product, as they
    lie, of as many as vectors hold.
    """
    if signature["layout"] == "channels_last" or convolution_type(signature) in ("f32", "f64"):
        return False
    pixels = prod(signature["x"][2:])
    is_product = prod(signature["w"][2:]) == 1 and pixels == prod(signature["y"][2:])
    return not is_product or pixels % _VECTOR_PIXELS != 0


def _padding_bytes(signature: Convolution) -> int:
    """What it takes to read and write an image with channels last that has fewer of them than the
    tensor cores' kernels load; 0: it has enough.
    """
    size = number_bytes(signature["type"])
    images, channels, *sides = signature["x"]
    least = _LOADED_CHANNELS.get(size, 0)
    is_single = convolution_type(signature) == "f32"
    if is_single or channels >= least or signature["layout"] != "channels_last":
        return 0
    return images * prod(sides) * (channels + least) * size


def _is_spread(signature: Convolution) -> bool:
    """Whether kernels of their own spread groups of channels out, and gather the results."""
    width = signature["w"][1]
    return (
        signature["groups"] > 1
        and width & (width - 1) != 0
        and signature["layout"] == "channels_last"
        and number_bytes(signature["type"]) == _HALF_BYTES
    )


def _is_depthwise(signature: Convolution) -> bool:
    """Whether cuDNN has kernels for these channels by themselves."""
    is_last = signature["type"] in ("f16", "bf16", "f32") and signature["layout"] == "channels_last"
    channels = signature["x"][1]
    return is_last and channels > 1 and signature["groups"] == channels == signature["w"][0]


def _depthwise_ns(signature: Convolution, gpu: GpuProfile) -> float:
    operation, window = str(signature["operation"]), prod(signature["w"][2:])
    element_cycles, product_cycles = _DEPTHWISE_CYCLES[operation]
    is_single = signature["type"] == "f32"
    if operation == "convolution_wgrad" and is_single and window > _LARGEST_WINDOW:
        product_cycles = _DIRECT_CYCLES
    elements = prod(signature["x"]) + prod(signature["y"])
    products = prod(signature["y"]) * window
    cycles = elements * element_cycles + products * product_cycles
    work = Work(bytes=signature["bytes"], cycles=cycles, cold=True)
    return work.duration_ns(gpu, gpu.sm_count)


def convolution_type(signature: Convolution) -> str:
    """The type whose peak rate bounds a convolution."""
    return "tf32" if signature["compute"] == "tf32" else str(signature["type"])


def _product_sizes(signature: Convolution) -> tuple[int, int, int]:
    """Sizes of one group's product; all three operations do the same multiply-adds."""
    pixels = signature["y"][0] * prod(signature["y"][2:])
    filters = signature["w"][0] // signature["groups"]
    window = prod(signature["w"][1:])
    match signature["operation"]:
        case "convolution_dgrad":
            # One row per pixel of x, as deep as the filters that reach it.
            inputs = signature["x"][0] * prod(signature["x"][2:])
            channels = signature["w"][1]
            return inputs, channels, max(1, ceil(pixels * filters * window / (inputs * channels)))
        case "convolution_wgrad":
            return filters, window, pixels
        case _:
            return pixels, filters, window
