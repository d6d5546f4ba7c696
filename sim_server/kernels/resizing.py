"""Resizing of images: nearest neighbours, bilinear and bicubic interpolation.

Finding an element's place, not memory, bounds most of these kernels. All cycles are of a
multiprocessor, fitted to images made twice as high and wide on H200 and H100, bilinear ones also
half as high and wide (docs/accuracy-operators.md).
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod

from sim_server.gpu import GpuProfile
from sim_server.kernels.windows import element_bytes
from sim_server.kernels.work import Launch, Work, guessed

# Share of a streaming kernel's rate.
_RESIZED = 0.75
# Nearest neighbours: of a place that a thread has, with a result there or not.
_NEAREST_CYCLES = 0.65
# Of an element of the gradient's result, which a thread adds up; with channels last, whose place
# takes as long as in the forward pass, also of each element that is added.
_NEAREST_GRADIENT_CYCLES = 1.65
_NEAREST_LAST_CYCLES = 1.66
_NEAREST_LAST_SUM_CYCLES = 0.49
# Bilinear, channels last: of a result, and of an element of the gradient, of which each is added
# to four others; those of two bytes by exchanging four.
_BILINEAR_LAST_CYCLES = 2.38
_BILINEAR_LAST_GRADIENT_CYCLES = {False: 2.24, True: 3.17}
# Bilinear, channels first: how often a thread waits for a plane's pixels, of which it has one; of
# an element of the gradient; and, as additions to the same element wait for each other, what the
# rows of images made larger cost, which end in such. Elements of two bytes take so many times as
# much, by whether images were made larger.
_PLANE_WAITS = 0.87
_ADDED_CYCLES, _ROW_CYCLES = 2.03, 37.5
# Channels first, an element of the gradient is added to four pixels, so that one of an image made
# twice as high and wide gets sixteen. Of more that go to one pixel, as where images of one pixel
# are made larger, each waits for the last: fitted to DeepLab's step on an H100
# (docs/accuracy-operators.md).
_ADDED_TO, _FITTED_ON_ONE, _ADDITION_NS = 4, 16, 35
_HALF_ADDED = {False: 2.5, True: 2.2}
# Bicubic: of a block and a plane, 16 pixels of which go into one; of the gradient, by its bytes.
_BICUBIC_CYCLES = 1260
_BICUBIC_GRADIENT_CYCLES = {2: 49_500, 4: 6000}


def nearest(launch: Launch, gpu: GpuProfile) -> Work:
    """upsample_nearest2d_out_frame(in, out, planes, height, width, new height, new width, ...) and
    those of one and three dimensions and of gradients, which get images and channels in place of
    planes and the gradient's size first. Source: aten/src/ATen/native/cuda/UpSampleNearest1d.cu, 2d
    and 3d. What is fitted is of two dimensions.
    """
    dimensions = int(launch.name.family.partition("nearest")[2][0])
    is_gradient = "backward" in launch.name.family
    leading = 1 if dimensions == 2 and not is_gradient else 2
    sizes = [launch.integer(position) for position in range(leading + 2 * dimensions)]
    if not all(sizes):
        return guessed(launch)
    known = [size or 1 for size in sizes]
    before, after = known[leading : leading + dimensions], known[leading + dimensions :]
    planes = prod(known[:leading])
    moved = planes * (prod(before) + prod(after)) * element_bytes(launch)
    work = Work(bytes=moved, efficiency=_RESIZED, sound=dimensions == 2, region="images")
    results = planes * prod(after)
    if is_gradient:
        # A thread goes over the images, and waits for each row that it adds up.
        busiest = ceil(launch.blocks / gpu.sm_count) * gpu.sm_count / launch.blocks
        cycles = results * _NEAREST_GRADIENT_CYCLES
        if dimensions == 2 and launch.blocks > gpu.sm_count:
            cycles *= busiest
        return replace(work, cycles=cycles, waits=known[0] * max(1, before[0] / after[0]))
    if dimensions == 2 and len(launch.grid) > 1:
        across, down = (launch.grid[side] * launch.block[side] for side in range(2))
        results = max(results, planes * across * down)
    return replace(work, cycles=results * _NEAREST_CYCLES)


def nearest_nhwc(launch: Launch, _gpu: GpuProfile) -> Work:
    """upsample_nearest2d_nhwc_out_frame(in, out, channels, height, width, new height, new width,
    ..., elements of the result) and upsample_nearest2d_backward_nhwc_out_frame(gradients, out,
    height, width, new height, new width, channels, ..., elements of the result).
    """
    is_gradient = "backward" in launch.name.family
    work = _of_last(launch, 0 if is_gradient else 1, element_bytes(launch))
    results = launch.integer(-1)
    if work is None or not results:
        return guessed(launch)
    summed = work.bytes / element_bytes(launch) - results if is_gradient else 0
    cycles = results * _NEAREST_LAST_CYCLES + summed * _NEAREST_LAST_SUM_CYCLES
    return replace(work, cycles=cycles)


def bilinear_nhwc(launch: Launch, _gpu: GpuProfile) -> Work:
    """upsample_bilinear2d_nhwc_out_frame(scales, aligned, channels, height, width, new height, new
    width, ..., elements of the result). Source: aten/src/ATen/native/cuda/UpSampleBilinear2d.cu.
    """
    work, results = _of_last(launch, 2, element_bytes(launch)), launch.integer(-1)
    if work is None or not results:
        return guessed(launch)
    return replace(work, cycles=results * _BILINEAR_LAST_CYCLES)


def _of_last(launch: Launch, first: int, size: int) -> Work | None:
    """`first`: position of the height before; the last integer is the number of results."""
    sizes, results = [launch.integer(first + place) for place in range(4)], launch.integer(-1)
    if not results or not all(sizes):
        return None
    height, width, new_height, new_width = (number or 1 for number in sizes)
    elements = results * (1 + height * width / (new_height * new_width))
    return Work(bytes=elements * size, efficiency=_RESIZED, region="images")


def bilinear(launch: Launch, gpu: GpuProfile) -> Work:
    """upsample_bilinear2d_out_frame(pixels of a result, scales, aligned, in, out): a thread has one
    of them and goes over all planes. Source: aten/src/ATen/native/cuda/UpSampleBilinear2d.cu.
    """
    pixels, moved, planes = launch.integer(0), *map(launch.sizes.get, ("tensor_bytes", "planes"))
    if not pixels or not moved or not planes:
        return guessed(launch)
    rounds = ceil(launch.blocks / (gpu.sm_count * launch.resident(gpu)))
    waits = planes * rounds * _PLANE_WAITS
    return Work(bytes=moved, efficiency=_RESIZED, region="images", waits=waits)


def bicubic(launch: Launch, gpu: GpuProfile) -> Work:
    """upsample_bicubic2d_out_frame(pixels of a result, scales, aligned, in, out) and
    upsample_bicubic2d_backward_out_frame: as `bilinear`'s. Source:
    aten/src/ATen/native/cuda/UpSampleBicubic2d.cu.
    """
    moved, planes = map(launch.sizes.get, ("tensor_bytes", "planes"))
    is_gradient, size = "backward" in launch.name.family, element_bytes(launch)
    if not moved or not planes:
        return guessed(launch)
    rounds = ceil(launch.blocks / (gpu.sm_count * launch.resident(gpu)))
    each = _BICUBIC_GRADIENT_CYCLES.get(size, _BICUBIC_GRADIENT_CYCLES[4])
    cycles = planes * rounds * (each if is_gradient else _BICUBIC_CYCLES)
    return Work(
        bytes=moved,
        efficiency=_RESIZED,
        region="images",
        cycles=cycles * min(gpu.sm_count, launch.blocks),
    )


def bilinear_gradient(launch: Launch, gpu: GpuProfile) -> Work:
    """upsample_bilinear2d_backward_out_frame(planes, height, width, new height, new width, ...) and
    upsample_bilinear2d_backward_nhwc_out_frame(height, width, new height, new width, ..., channels,
    elements of the gradient, elements of the result). Source: as of `bilinear`.
    """
    size = element_bytes(launch)
    if launch.name.family.endswith("nhwc_out_frame"):
        gradients, results = launch.integer(-2), launch.integer(-1)
        if not gradients or not results:
            return guessed(launch)
        cycles = gradients * _BILINEAR_LAST_GRADIENT_CYCLES[size == 2]
        return Work(
            bytes=(gradients + results) * size, efficiency=_RESIZED, region="images", cycles=cycles
        )
    sizes = [launch.integer(position) for position in range(5)]
    if not all(sizes):
        return guessed(launch)
    planes, height, width, new_height, new_width = (number or 1 for number in sizes)
    gradients = planes * new_height * new_width
    results = planes * height * width
    is_larger = gradients > results
    each = _ADDED_CYCLES + (_ROW_CYCLES / new_width if is_larger else 0)
    if size == 2:
        each *= _HALF_ADDED[is_larger]
    return Work(  # what is added to is read and written
        bytes=(gradients + 2 * results) * size,
        efficiency=_RESIZED,
        region="images",
        cycles=gradients * each,
        serial_ns=_waiting_ns(gradients, results, gpu),
    )


def _waiting_ns(gradients: int, results: int, gpu: GpuProfile) -> float:
    """What additions to the same pixels wait for each other, beyond what the cycles of images made
    twice as large have of it. Those of the threads in flight go to so many pixels side by side.
    """
    on_one = _ADDED_TO * gradients / results
    in_flight = gpu.sm_count * gpu.properties["maxThreadsPerMultiProcessor"]
    rounds = max(1.0, gradients / in_flight)
    return rounds * max(0.0, on_one - _FITTED_ON_ONE) * _ADDITION_NS
