"""PyTorch's own batch norms and group norms.

Of channels first a block goes over all that a channel has, and waits at each step for what it has
asked for. All constants: fitted to norms of images of 7 to 112 pixels a side on H200
(docs/accuracy-operators.md).
"""

from __future__ import annotations

from math import ceil

from sim_server.gpu import GpuProfile
from sim_server.kernels.names import number_types, type_bytes
from sim_server.kernels.work import Launch, Work, guessed

# Share of a streaming kernel's rate.
_STREAMED = 0.9
# What blocks that combine what their threads have found take on top.
_BLOCK_SUM_NS = 4500
# Of a multiprocessor: for an element that is normalised, with a place in a block, and for a block,
# of which there are many of few elements.
_TRANSFORM_CYCLES, _TRANSFORM_BLOCK_CYCLES = 0.47, 130
# How often a thread of few blocks, of volumes, waits in a step of its block: fitted to two on H100.
_TRANSFORM_WAITS = 0.87
# Channels last, by what a kernel is for: tensors, cycles of a multiprocessor for an element, how
# often a thread waits in a step of four rows, and nanoseconds until blocks have added up what each
# of them has.
_LAST = {
    "collect_statistics": (1, 0.75, 4.0, 5000),
    "transform_input": (2, 0.36, 2.4, 0),
    "backward_reduce": (2, 0.40, 2.0, 6000),
    "backward_elemt": (3, 0.50, 3.0, 0),
}
_ROWS_OF_STEP = 4
# Moments of a group: cycles of a step of its block, each of which divides, and what a block takes
# for the sum of its threads.
_MOMENT_CYCLES, _MOMENT_SUM_NS = 950, 2000
# Sums of a group norm's gradient: cycles of a multiprocessor for an element, with a place in a
# block, for a block of one warp and of more, which wait for each other, and before all that.
_SUM_CYCLES, _WARP_CYCLES, _SUM_BLOCK_CYCLES, _SUM_START_NS = 0.53, 125, 250, 3000
# What a group of channels takes to fuse its parameters, once its warp has begun.
_FUSED_NS = 1100


def _rounds(launch: Launch, gpu: GpuProfile) -> int:
    """How many blocks follow each other in the place of one."""
    return ceil(launch.blocks / (gpu.sm_count * launch.resident(gpu)))


def of_channels(launch: Launch, gpu: GpuProfile) -> Work:
    """batch_norm_collect_statistics_kernel(in, ...) and batch_norm_backward_kernel(in, gradient,
    out, ...), which goes over both twice: a block for each channel. Source:
    aten/src/ATen/native/cuda/Normalization.cuh.
    """
    tensors, passes = (3, 2) if "backward" in launch.name.family else (1, 1)
    moved = launch.sizes.get("tensor_bytes")
    if not moved:
        return guessed(launch)
    elements = moved / tensors / _size(launch)
    steps = elements / launch.blocks / launch.threads
    rounds = _rounds(launch, gpu)
    return Work(
        bytes=moved * (5 / 3 if passes == 2 else 1),
        efficiency=_STREAMED,
        waits=passes * steps * rounds,
        serial_ns=rounds * _BLOCK_SUM_NS,
        region="images",
    )


def _size(launch: Launch) -> int:
    return next(iter(number_types(", ".join(launch.name.template))), 4)


def transform(launch: Launch, gpu: GpuProfile) -> Work:
    """batch_norm_transform_input_kernel(in, out, ...): a block for a channel of each image. Source:
    as of `of_channels`.
    """
    moved = launch.sizes.get("tensor_bytes")
    if not moved:
        return guessed(launch)
    places = ceil(moved / 2 / _size(launch) / launch.blocks / launch.threads) * launch.threads
    steps = _rounds(launch, gpu) * places / launch.threads
    return Work(
        bytes=moved,
        efficiency=_STREAMED,
        cycles=launch.blocks * (places * _TRANSFORM_CYCLES + _TRANSFORM_BLOCK_CYCLES),
        waits=steps * _TRANSFORM_WAITS,
        region="images",
    )


def channels_last(launch: Launch, _gpu: GpuProfile) -> Work:
    """batch_norm_*_channels_last_kernel(..., rows, channels, ...). Source: as of `of_channels`."""
    rows, channels = launch.integer(0), launch.integer(1)
    found = next((costs for part, costs in _LAST.items() if part in launch.name.family), None)
    if not rows or not channels or found is None:
        return guessed(launch)
    tensors, cycles, waits, serial_ns = found
    steps = ceil(rows / (launch.grid[1] * launch.block[1] * _ROWS_OF_STEP))
    elements = rows * channels
    return Work(
        bytes=elements * tensors * _size(launch),
        efficiency=_STREAMED,
        cycles=elements * cycles,
        waits=waits * steps,
        serial_ns=serial_ns,
        region="images",
    )


def moments(launch: Launch, gpu: GpuProfile) -> Work:
    """RowwiseMomentsCUDAKernel(length, epsilon, in, ...): mean and spread of a group, by a block.
    Source: aten/src/ATen/native/cuda/group_norm_kernel.cu.
    """
    length = launch.integer(0)
    if not length:
        return guessed(launch)
    steps, rounds = ceil(length / launch.threads), _rounds(launch, gpu)
    return Work(
        bytes=launch.blocks * length * (type_bytes(launch.name.template[0]) or 4),
        efficiency=_STREAMED,
        cycles=rounds * steps * _MOMENT_CYCLES * min(gpu.sm_count, launch.blocks),
        serial_ns=rounds * _MOMENT_SUM_NS,
        region="images",
    )


def group_sums(launch: Launch, _gpu: GpuProfile) -> Work:
    """ComputeInternalGradients*CUDAKernel(length, dY, X, ...): of a group norm's gradient, a block
    for each channel of an image reads both. Source: as of `moments`.
    """
    length = launch.integer(0)
    if length is None:
        return guessed(launch)
    width = type_bytes(launch.name.template[0]) or 4
    places = ceil(length / launch.threads) * launch.threads
    block = _WARP_CYCLES if launch.threads <= 32 else _SUM_BLOCK_CYCLES
    return Work(
        bytes=launch.blocks * length * 2 * width,
        efficiency=_STREAMED,
        cycles=launch.blocks * (places * _SUM_CYCLES + block),
        serial_ns=_SUM_START_NS,
        region="images",
    )


def fused_parameters(launch: Launch, _gpu: GpuProfile) -> Work:
    """ComputeBackwardFusedParamsCUDAKernel(channels, length, groups, ...): a block for each group
    of an image. Source: as of `moments`.
    """
    channels, groups = launch.integer(0), launch.integer(2)
    if not channels or not groups:
        return guessed(launch)
    return Work(
        bytes=launch.blocks * channels / groups * 12,
        cycles=launch.blocks * _WARP_CYCLES,
        serial_ns=_FUSED_NS,
        region="images",
    )
