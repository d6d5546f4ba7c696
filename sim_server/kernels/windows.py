"""Kernels that go over windows of images: adaptive pooling, `unfold` and `fold`, and depthwise
convolutions.

Each element is taken to be read or written once: windows that overlap find theirs in a cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, prod

from sim_server.gpu import GpuProfile
from sim_server.kernels.names import type_bytes
from sim_server.kernels.work import Launch, Work, guessed

# Assumed: share of a streaming kernel's rate.
_WINDOWS = 0.6
# Assumed, too: of kernels that take longer for what is beside.
_STREAMED = 0.9
INDEX_BYTES = 8
# Depthwise convolutions: cycles of a multiprocessor for a result, for each row of its window and
# each element of it, of their gradient too, and for a product of the weights' gradient and a block,
# which sums up. Kernels for windows of one size have no rows to go through. Fitted to windows of
# 3 x 3, 7 x 7, 1 x 4 and 1 x 31 in f32 on H100 (docs/accuracy-operators.md).
_DEPTHWISE_CYCLES = 1.27, 0.0, 0.15
_DEPTHWISE_GENERIC_CYCLES = 2.04, 0.465, 0.071
_DEPTHWISE_GRADIENT_CYCLES = 1.35, 0.5, 0.14
_WEIGHT_CYCLES, _WEIGHT_BLOCK_CYCLES = 0.39, 300
# unfold: of an element of a window; fold: of one that is added to its pixel, which takes divisions
# of 64-bit numbers. Fitted to windows of 3 x 3 on H100 (as above), like what is below.
_UNFOLDED_CYCLES = 0.76
_FOLDED_CYCLES = 2.43
# Adaptive pooling: what a block takes, and for an element of the window of a thread. Their
# gradients: of an element, by its bytes, which is added to as all atomics to memory are.
_ADAPTIVE_CYCLES, _ADAPTIVE_ELEMENT_CYCLES = 6300, 136
_ADAPTIVE_GRADIENT_CYCLES = {2: 6.9, 4: 3.4}
# Greatest of windows of volumes: of a thread, with a result or not, and an element of its window;
# of a gradient, which is added by an atomic. Fitted to windows of 2 x 2 x 2 on H100 (as above); an
# element's share: as of `pooling`.
_VOLUME_CYCLES, _VOLUME_ELEMENT_CYCLES = 2.6, 0.23
_VOLUME_GRADIENT_CYCLES = 5.0
_VOLUME_INTEGERS = 11
"""So many does adaptive pooling of volumes get; that of planes gets seven."""


def element_bytes(launch: Launch) -> int:
    """Of the type that is the first template argument."""
    return type_bytes(launch.name.template[0]) or 4


def adaptive_pool(launch: Launch, gpu: GpuProfile) -> Work:
    """adaptive_average_pool and adaptivemaxpool(in, out, ..., height, width, pooled height, pooled
    width, ...) and their gradients, with the same sizes: a column of blocks for each plane. Source:
    aten/src/ATen/native/cuda/AdaptiveAveragePooling.cu, AdaptiveMaxPooling2d.cu. Those of volumes,
    adaptiveaveragepool and an adaptivemaxpool too, have a depth before each height: the same for
    each plane of the results. Source: AdaptiveAveragePooling3d.cu, AdaptiveMaxPooling3d.cu.
    """
    if launch.integer(_VOLUME_INTEGERS - 1) is not None:
        index_bytes = INDEX_BYTES if "max" in launch.name.family else 0
        return _volumes(launch, launch.grid[0], range(6), index_bytes)
    sizes = [launch.integer(position) for position in range(4)]
    if not all(sizes):
        return guessed(launch)
    is_max = "max" in launch.name.family
    plane = [size or 1 for size in sizes]
    work = planes_work(launch.grid[0], plane, element_bytes(launch), INDEX_BYTES if is_max else 0)
    if "gradinput" not in launch.name.family:
        cycles = _adaptive_cycles(launch, plane, gpu)
        return replace(work, cycles=cycles, sound=not is_max, region="images")
    each = _ADAPTIVE_GRADIENT_CYCLES.get(element_bytes(launch))
    if is_max or each is None or "atomic" not in launch.name.family:
        return work
    added = launch.grid[0] * prod(plane[2:]) * _window_of(plane)
    return replace(work, cycles=added * each, sound=True, region="images")


def _window_of(plane: Sequence[int]) -> int:
    """Elements of an adaptive window, of height and width before and after."""
    return ceil(plane[0] / plane[2]) * ceil(plane[1] / plane[3])


def _adaptive_cycles(launch: Launch, plane: Sequence[int], gpu: GpuProfile) -> float:
    """Of threads that go over one window after the other, in all rounds of blocks."""
    rows = ceil(plane[2] / (prod(launch.grid[1:]) * launch.block[1]))
    steps = rows * ceil(plane[3] / launch.block[0]) * _window_of(plane)
    rounds = ceil(launch.blocks / (gpu.sm_count * launch.resident(gpu)))
    block_cycles = _ADAPTIVE_CYCLES + steps * _ADAPTIVE_ELEMENT_CYCLES
    return rounds * block_cycles * min(gpu.sm_count, launch.blocks)


def adaptive_pool_nhwc(launch: Launch, _gpu: GpuProfile) -> Work:
    """adaptive_average_pool_nhwc and adaptive_average_gradinput_nhwc(in, out, images, channels,
    height, width, pooled height, pooled width, ...). Source as of `adaptive_pool`.
    """
    sizes = [launch.integer(position) for position in range(6)]
    if not all(sizes):
        return guessed(launch)
    images, channels, *plane = (size or 1 for size in sizes)
    size = type_bytes(launch.name.template[1]) or 4
    return planes_work(images * channels, plane, size, 0)


def pool_volume(launch: Launch, _gpu: GpuProfile) -> Work:
    """max_pool3d_with_indices_single_out_frame(in, out, places, channels, depth, height, width,
    images, pooled depth, height, width, window's depth, height, width, ...): the grid's last extent
    is the planes of the results. Source: aten/src/ATen/native/cuda/DilatedMaxPool3d.cu.
    """
    window = [launch.parameter(index) for index in range(11, 14)]
    work = _volumes(launch, launch.grid[2], (1, 2, 3, 5, 6, 7), INDEX_BYTES)
    if not all(window):
        return work
    each = _VOLUME_CYCLES + prod(side or 1 for side in window) * _VOLUME_ELEMENT_CYCLES
    cycles = launch.blocks * launch.threads * each
    return replace(work, cycles=cycles, sound=True, region="images")


def pool_volume_gradient(launch: Launch, _gpu: GpuProfile) -> Work:
    """max_pool3d_with_indices_backward_single_out_frame, with the same sizes: each gradient is
    added to the greatest element of its window. Source: as of `pool_volume`.
    """
    work = _volumes(launch, launch.grid[2], (1, 2, 3, 5, 6, 7), INDEX_BYTES)
    height, width = launch.integer(6), launch.integer(7)
    if not height or not width:
        return work
    cycles = launch.grid[2] * height * width * _VOLUME_GRADIENT_CYCLES
    return replace(work, cycles=cycles, sound=True, region="images")


def _volumes(launch: Launch, planes: int, positions: Sequence[int], index_bytes: int) -> Work:
    """`planes`: of the results. `positions`: of depth, height and width before and after."""
    sizes = [launch.integer(position) for position in positions]
    if not all(sizes):
        return guessed(launch)
    depth, height, width, new_depth, new_height, new_width = (size or 1 for size in sizes)
    read = depth / new_depth * height * width * element_bytes(launch)
    written = new_height * new_width * (element_bytes(launch) + index_bytes)
    return Work(bytes=planes * (read + written), efficiency=_WINDOWS, sound=False)


def planes_work(count: float, plane: Sequence[int], size: int, index_bytes: int) -> Work:
    """`plane`: height and width before and after. `index_bytes`: beside each result."""
    height, width, new_height, new_width = plane
    results = new_height * new_width
    moved = count * ((height * width + results) * size + results * index_bytes)
    return Work(bytes=moved, efficiency=_WINDOWS, sound=False)


def unevenness(rounds: float) -> float:
    """How much longer `rounds` of blocks take because the last one is not full."""
    return ceil(rounds) / rounds if rounds > 1 else 1.0


def unfold(launch: Launch, gpu: GpuProfile) -> Work:
    """im2col_kernel(places, in, height, width, kernel height, kernel width, ...): each place is
    written once for each element of a window. Source: aten/src/ATen/native/cuda/im2col.cuh.
    """
    places, height, width = launch.integer(0), launch.integer(3), launch.integer(4)
    if not places or not height or not width:
        return guessed(launch)
    moved = places * (1 + height * width) * element_bytes(launch)
    rounds = launch.blocks / (gpu.sm_count * launch.resident(gpu))
    cycles = places * height * width * _UNFOLDED_CYCLES * unevenness(rounds)
    return Work(bytes=moved, efficiency=_STREAMED, cycles=cycles, region="images")


def fold(launch: Launch, _gpu: GpuProfile) -> Work:
    """col2im_batched_kernel(elements of an image, in, elements of its windows, images, ...). Source
    as of `unfold`.
    """
    elements, windows, images = (launch.integer(position) for position in range(3))
    if not elements or not windows or not images:
        return guessed(launch)
    moved = images * (elements + windows) * element_bytes(launch)
    cycles = images * windows * _FOLDED_CYCLES
    return Work(bytes=moved, efficiency=_STREAMED, cycles=cycles, region="images")


def depthwise(launch: Launch, _gpu: GpuProfile) -> Work:
    """conv_depthwise2d_forward_kernel[_generic](in, out, weight, bias, has bias, results, channels,
    multiplier, four sizes, width and height of the window, ...) and
    conv_depthwise2d_backward_kernel(gradient, out, weight, results, three counts of channels, four
    sizes, width and height of the window, ...): a thread goes over the window of its result.
    Source: aten/src/ATen/native/cuda/DepthwiseConv2d.cu.
    """
    is_gradient = "backward" in launch.name.family
    first = 3 if is_gradient else 5
    width_at = first + (8 if is_gradient else 7)
    results, width, rows = map(launch.parameter, (first, width_at, width_at + 1))
    moved = launch.sizes.get("tensor_bytes", 0)
    if not results or not width or not rows:
        return guessed(launch)
    is_generic = launch.name.family.endswith("generic")
    costs = _DEPTHWISE_GENERIC_CYCLES if is_generic else _DEPTHWISE_CYCLES
    start, row, tap = _DEPTHWISE_GRADIENT_CYCLES if is_gradient else costs
    cycles = results * (start + rows * (row + width * tap))
    return Work(bytes=moved, efficiency=_WINDOWS, cycles=cycles, region="images")


def depthwise_weights(launch: Launch, _gpu: GpuProfile) -> Work:
    """conv_depthwise2d_grad_weight_kernel(gradient, in, out, images, channels, channels of the
    result, multiplier, width, height, new width, new height, width and height of the window, ...):
    a block for each weight. Source: as of `depthwise`.
    """
    images, width, height = (launch.parameter(index) for index in (3, 9, 10))
    moved = launch.sizes.get("tensor_bytes", 0)
    if not images or not width or not height:
        return guessed(launch)
    products = images * width * height
    cycles = launch.blocks * (products * _WEIGHT_CYCLES + _WEIGHT_BLOCK_CYCLES)
    return Work(bytes=moved, efficiency=_WINDOWS, cycles=cycles, region="images")
