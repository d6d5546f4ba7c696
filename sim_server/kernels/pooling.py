"""Pooling of images over windows of a size.

Each element is taken to be read or written once: windows that overlap find theirs in a cache. What
bounds most of these kernels is not memory, but the divisions that find an element's place and the
steps through its windows. All cycles are of a multiprocessor, fitted to the pooling of images of
7 to 112 pixels a side, windows of 2 x 2 and 3 x 3 (maximum), on H200 and H100
(docs/accuracy-operators.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from sim_server.gpu import GpuProfile
from sim_server.kernels.windows import INDEX_BYTES, element_bytes, planes_work, unevenness
from sim_server.kernels.work import Launch, Work, guessed

# Of a result, and of each element of its window, by whether the greatest is looked for and whether
# channels are last. What an element of an average takes is assumed: as of the greatest.
_POOLED_CYCLES = {
    (True, False): (2.2, 0.23),
    (True, True): (2.0, 0.27),
    (False, False): (2.2, 0.23),
    (False, True): (5.7, 0.23),
}
# Share of a streaming kernel's rate.
_POOLED = 0.75
# Gradients of maxima, channels first: of a thread, of an element, whose first and last window are
# found by divisions, and of a window that it is in.
_THREAD_CYCLES, _ELEMENT_CYCLES, _PAIR_CYCLES = 0.56, 1.58, 0.35
# Channels last: of a block, which sums in shared memory, and of an element.
_LAST_BLOCK_CYCLES, _LAST_GRADIENT_CYCLES = 9000, 1.07
# Of averages: of an element, and of a window that it is in.
_AVERAGE_GRADIENT_CYCLES, _AVERAGE_PAIR_CYCLES = 3.25, 1.5


@dataclass(frozen=True)
class Axis:
    """One dimension of images: sizes before and after, and how windows lie on it."""

    size: int
    pooled: int
    window: int
    stride: int
    padding: int
    dilation: int

    @property
    def pairs(self) -> int:
        """Pairs of a window and an element that is in it."""
        reach = range(0, self.window * self.dilation, self.dilation)
        starts = (place * self.stride - self.padding for place in range(self.pooled))
        return sum(0 <= start + step < self.size for start in starts for step in reach)


@dataclass(frozen=True)
class Pooling:
    """The two axes of pooling, as a kernel's arguments have them."""

    rows: Axis
    columns: Axis

    @classmethod
    def of(cls, launch: Launch, first: int) -> Pooling | None:
        """`first`: the parameter that is the height, which sizes of windows follow after three."""
        sizes = [launch.parameter(first + place) for place in range(4)]
        if not all(sizes):
            return None
        axes = []
        for side in range(2):
            size, pooled = sizes[side] or 1, sizes[side + 2] or 1
            window = launch.parameter(first + 4 + side) or ceil(size / pooled)
            stride = launch.parameter(first + 6 + side) or window
            padding = launch.parameter(first + 8 + side) or 0
            is_max = "max_pool" in launch.name.family
            dilation = (launch.parameter(first + 10 + side) or 1) if is_max else 1
            axes.append(Axis(size, pooled, window, stride, padding, dilation))
        return cls(*axes)

    @property
    def plane(self) -> tuple[int, int, int, int]:
        """Height and width, before and after."""
        return self.rows.size, self.columns.size, self.rows.pooled, self.columns.pooled

    @property
    def elements(self) -> int:
        """Of a plane, before."""
        return self.rows.size * self.columns.size

    @property
    def results(self) -> int:
        """Of a plane, after."""
        return self.rows.pooled * self.columns.pooled

    @property
    def pairs(self) -> int:
        """Of a plane: pairs of a window and an element that is in it."""
        return self.rows.pairs * self.columns.pairs


def pool(launch: Launch, gpu: GpuProfile) -> Work:
    """max_pool_forward_nchw and avg_pool2d_out_cuda_frame[_nhwc](results, in, channels, height,
    width, pooled height, pooled width, window, stride, padding, ...), max_pool_forward_nhwc(in,
    images, the same from channels on), which has what a block goes over in shared memory. Source:
    aten/src/ATen/native/cuda/DilatedMaxPool2d.cu, AveragePool2d.cu.
    """
    pooling = Pooling.of(launch, 3)
    channels, images = launch.parameter(2), launch.parameter(1)
    results = launch.parameter(0)
    if pooling is None or not channels or not (results or images):
        return guessed(launch)
    planes = results / pooling.results if results else (images or 1) * channels
    is_last, is_max = launch.name.family.endswith("nhwc"), "max_pool" in launch.name.family
    result_cycles, element_cycles = _POOLED_CYCLES[is_max, is_last]
    cycles = planes * (pooling.results * result_cycles + pooling.pairs * element_cycles)
    if is_max and is_last:
        cycles *= unevenness(launch.blocks / (gpu.sm_count * launch.resident(gpu)))
    work = planes_work(planes, pooling.plane, element_bytes(launch), INDEX_BYTES if is_max else 0)
    return replace(work, cycles=cycles, efficiency=_POOLED, sound=True, region="images")


def pool_gradient(launch: Launch, _gpu: GpuProfile) -> Work:
    """max_pool_backward_nchw and _nhwc(gradients, places, images, channels, height, width, pooled
    height, pooled width, window, stride, padding, ...): a block of the first goes over a plane or a
    part of it, whether its threads have an element or not. Source: `pool`'s.
    """
    pooling = Pooling.of(launch, 4)
    images, channels = launch.parameter(2), launch.parameter(3)
    if pooling is None or not images or not channels:
        return guessed(launch)
    planes = images * channels
    work = planes_work(planes, pooling.plane, element_bytes(launch), INDEX_BYTES)
    if launch.name.family.endswith("nhwc"):
        elements = planes * pooling.elements
        cycles = launch.blocks * _LAST_BLOCK_CYCLES + elements * _LAST_GRADIENT_CYCLES
    else:
        cycles = launch.blocks * launch.threads * _THREAD_CYCLES
        cycles += planes * (pooling.elements * _ELEMENT_CYCLES + pooling.pairs * _PAIR_CYCLES)
    return replace(work, cycles=cycles, efficiency=_POOLED, sound=True, region="images")


def average_pool_gradient(launch: Launch, _gpu: GpuProfile) -> Work:
    """avg_pool2d_backward_out_cuda_frame[_nhwc](elements of the result, gradients, channels,
    height, width, pooled height, pooled width, window, stride, padding, ...): divides 64-bit
    numbers for each element. Source: `pool`'s.
    """
    elements, pooling = launch.parameter(0), Pooling.of(launch, 3)
    if not elements or pooling is None:
        return guessed(launch)
    planes = elements / pooling.elements
    work = planes_work(planes, pooling.plane, element_bytes(launch), 0)
    cycles = elements * _AVERAGE_GRADIENT_CYCLES + planes * pooling.pairs * _AVERAGE_PAIR_CYCLES
    return replace(work, cycles=cycles, efficiency=_POOLED, sound=True, region="images")
