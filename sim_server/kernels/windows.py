"""Kernels that go over windows of images: pooling, resizing, `unfold` and `fold`.

Each element is taken to be read or written once: windows that overlap find theirs in a cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from sim_server.gpu import GpuProfile
from sim_server.kernels.names import type_bytes
from sim_server.kernels.work import Launch, Work, guessed

# Assumed: share of a streaming kernel's rate.
_WINDOWS = 0.6
_INDEX_BYTES = 8
_VOLUME_INTEGERS = 11
"""So many does adaptive pooling of volumes get; that of planes gets seven."""


def _size(launch: Launch) -> int:
    return type_bytes(launch.name.template[0]) or 4


def pool(launch: Launch, _gpu: GpuProfile) -> Work:
    """max_pool_forward_nchw and avg_pool2d_out_cuda_frame(results, in, channels, height, width,
    pooled height, pooled width, ...). Source: aten/src/ATen/native/cuda/DilatedMaxPool2d.cu,
    AveragePool2d.cu.
    """
    results, sizes = launch.integer(0), [launch.integer(position) for position in range(2, 6)]
    if not results or not all(sizes):
        return guessed(launch)
    plane = [size or 1 for size in sizes]
    index_bytes = _INDEX_BYTES if "max_pool" in launch.name.family else 0
    return _planes(results / (plane[2] * plane[3]), plane, _size(launch), index_bytes)


def max_pool(launch: Launch, _gpu: GpuProfile) -> Work:
    """max_pool_forward_nhwc(in, images, channels, height, width, pooled height, pooled width, ...)
    and max_pool_backward_nchw and _nhwc(gradients, places, the same, ..., out). Source: `pool`'s.
    """
    sizes = [launch.integer(position) for position in range(6)]
    if not all(sizes):
        return guessed(launch)
    images, channels, *plane = (size or 1 for size in sizes)
    return _planes(images * channels, plane, _size(launch), _INDEX_BYTES)


def adaptive_pool(launch: Launch, _gpu: GpuProfile) -> Work:
    """adaptive_average_pool and adaptivemaxpool(in, out, ..., height, width, pooled height, pooled
    width, ...) and their gradients, with the same sizes: a column of blocks for each plane. Source:
    aten/src/ATen/native/cuda/AdaptiveAveragePooling.cu, AdaptiveMaxPooling2d.cu. Those of volumes,
    adaptiveaveragepool and an adaptivemaxpool too, have a depth before each height: the same for
    each plane of the results. Source: AdaptiveAveragePooling3d.cu, AdaptiveMaxPooling3d.cu.
    """
    if launch.integer(_VOLUME_INTEGERS - 1) is not None:
        index_bytes = _INDEX_BYTES if "max" in launch.name.family else 0
        return _volumes(launch, launch.grid[0], range(6), index_bytes)
    sizes = [launch.integer(position) for position in range(4)]
    if not all(sizes):
        return guessed(launch)
    index_bytes = _INDEX_BYTES if "max" in launch.name.family else 0
    return _planes(launch.grid[0], [size or 1 for size in sizes], _size(launch), index_bytes)


def adaptive_pool_nhwc(launch: Launch, _gpu: GpuProfile) -> Work:
    """adaptive_average_pool_nhwc and adaptive_average_gradinput_nhwc(in, out, images, channels,
    height, width, pooled height, pooled width, ...). Source as of `adaptive_pool`.
    """
    sizes = [launch.integer(position) for position in range(6)]
    if not all(sizes):
        return guessed(launch)
    images, channels, *plane = (size or 1 for size in sizes)
    size = type_bytes(launch.name.template[1]) or 4
    return _planes(images * channels, plane, size, 0)


def average_pool_gradient(launch: Launch, _gpu: GpuProfile) -> Work:
    """avg_pool2d_backward_*frame(elements of the input, gradients, channels, height, width, pooled
    height, pooled width, ...). Source: aten/src/ATen/native/cuda/AveragePool2d.cu.
    """
    elements, sizes = launch.integer(0), [launch.integer(position) for position in range(2, 6)]
    if not elements or not all(sizes):
        return guessed(launch)
    plane = [size or 1 for size in sizes]
    return _planes(elements / (plane[0] * plane[1]), plane, _size(launch), 0)


def pool_volume(launch: Launch, _gpu: GpuProfile) -> Work:
    """max_pool3d_with_indices_single_out_frame(in, out, places, channels, depth, height, width,
    images, pooled depth, height, width, ...): the grid's last extent is the planes of the results.
    Source: aten/src/ATen/native/cuda/DilatedMaxPool3d.cu.
    """
    return _volumes(launch, launch.grid[2], (1, 2, 3, 5, 6, 7), _INDEX_BYTES)


def _volumes(launch: Launch, planes: int, positions: Sequence[int], index_bytes: int) -> Work:
    """`planes`: of the results. `positions`: of depth, height and width before and after."""
    sizes = [launch.integer(position) for position in positions]
    if not all(sizes):
        return guessed(launch)
    depth, height, width, new_depth, new_height, new_width = (size or 1 for size in sizes)
    read = depth / new_depth * height * width * _size(launch)
    written = new_height * new_width * (_size(launch) + index_bytes)
    return Work(bytes=planes * (read + written), efficiency=_WINDOWS, sound=False)


def nearest(launch: Launch, _gpu: GpuProfile) -> Work:
    """upsample_nearest2d_out_frame(in, out, planes, height, width, new height, new width, ...) and
    those of one and three dimensions and of gradients, which get images and channels in place of
    planes. Source: aten/src/ATen/native/cuda/UpSampleNearest1d.cu, 2d and 3d.
    """
    dimensions = int(launch.name.family.partition("nearest")[2][0])
    is_of_planes = dimensions == 2 and "backward" not in launch.name.family
    leading = 1 if is_of_planes else 2
    sizes = [launch.integer(position) for position in range(leading + 2 * dimensions)]
    if not all(sizes):
        return guessed(launch)
    known = [size or 1 for size in sizes]
    before, after = known[leading : leading + dimensions], known[leading + dimensions :]
    moved = prod(known[:leading]) * (prod(before) + prod(after)) * _size(launch)
    return Work(bytes=moved, efficiency=_WINDOWS, sound=False)


def resized_nhwc(launch: Launch, _gpu: GpuProfile) -> Work:
    """upsample_nearest2d_nhwc_out_frame(in, out, channels, height, width, new height, new width,
    ..., elements of the result), upsample_bilinear2d_nhwc_out_frame, which has whether corners are
    aligned first, and upsample_nearest2d_backward_nhwc_out_frame(gradients, out, height, width, new
    height, new width, channels, ..., elements of the result).
    """
    name = launch.name.family
    first = 0 if "backward" in name else 2 if "bilinear" in name else 1
    sizes, results = [launch.integer(first + place) for place in range(4)], launch.integer(-1)
    if not results or not all(sizes):
        return guessed(launch)
    plane = [size or 1 for size in sizes]
    return _planes(results / (plane[2] * plane[3]), plane, _size(launch), 0)


def _planes(count: float, plane: Sequence[int], size: int, index_bytes: int) -> Work:
    """`plane`: height and width before and after. `index_bytes`: beside each result."""
    height, width, new_height, new_width = plane
    results = new_height * new_width
    moved = count * ((height * width + results) * size + results * index_bytes)
    return Work(bytes=moved, efficiency=_WINDOWS, sound=False)


def unfold(launch: Launch, _gpu: GpuProfile) -> Work:
    """im2col_kernel(places, in, height, width, kernel height, kernel width, ...): each place is
    written once for each element of a window. Source: aten/src/ATen/native/cuda/im2col.cuh.
    """
    places, height, width = launch.integer(0), launch.integer(3), launch.integer(4)
    if not places or not height or not width:
        return guessed(launch)
    moved = places * (1 + height * width) * _size(launch)
    return Work(bytes=moved, efficiency=_WINDOWS, sound=False)


def fold(launch: Launch, _gpu: GpuProfile) -> Work:
    """col2im_batched_kernel(elements of an image, in, elements of its windows, images, ...). Source
    as of `unfold`.
    """
    elements, windows, images = (launch.integer(position) for position in range(3))
    if not elements or not windows or not images:
        return guessed(launch)
    moved = images * (elements + windows) * _size(launch)
    return Work(bytes=moved, efficiency=_WINDOWS, sound=False)
