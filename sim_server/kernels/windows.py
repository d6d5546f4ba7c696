"""Kernels that go over windows of images: pooling and `unfold`.

Each element is taken to be read or written once: windows that overlap find theirs in a cache.
"""

from __future__ import annotations

from sim_server.gpu import GpuProfile
from sim_server.kernels.names import type_bytes
from sim_server.kernels.work import Launch, Work

# Assumed: share of a streaming kernel's rate.
_WINDOWS = 0.6
_INDEX_BYTES = 8


def _unknown(launch: Launch) -> Work:
    return Work(bytes=launch.blocks * launch.threads * 16, sound=False)


def _size(launch: Launch) -> int:
    return type_bytes(launch.name.template[0]) or 4


def _work(moved_bytes: float) -> Work:
    return Work(bytes=moved_bytes, efficiency=_WINDOWS, sound=False)


def pool(launch: Launch, _gpu: GpuProfile) -> Work:
    """max_pool_forward_nchw and avg_pool2d_out_cuda_frame(results, in, channels, height, width,
    pooled height, pooled width, ...). Source: aten/src/ATen/native/cuda/DilatedMaxPool2d.cu,
    AveragePool2d.cu.
    """
    results, sizes = launch.integer(0), [launch.integer(position) for position in range(2, 6)]
    if not results or not all(sizes):
        return _unknown(launch)
    height, width, pooled_height, pooled_width = (size or 1 for size in sizes)
    inputs = results * height * width / (pooled_height * pooled_width)
    index_bytes = _INDEX_BYTES if "max_pool" in launch.name.family else 0
    return _work((inputs + results) * _size(launch) + results * index_bytes)


def max_pool_backward(launch: Launch, _gpu: GpuProfile) -> Work:
    """max_pool_backward_nchw(gradients, places, images, channels, height, width, pooled height,
    pooled width, ..., out).
    """
    sizes = [launch.integer(position) for position in range(6)]
    if not all(sizes):
        return _unknown(launch)
    images, channels, height, width, pooled_height, pooled_width = (size or 1 for size in sizes)
    planes, results = images * channels, pooled_height * pooled_width
    return _work(planes * ((height * width + results) * _size(launch) + results * _INDEX_BYTES))


def unfold(launch: Launch, _gpu: GpuProfile) -> Work:
    """im2col_kernel(places, in, height, width, kernel height, kernel width, ...): each place is
    written once for each element of a window. Source: aten/src/ATen/native/cuda/im2col.cuh.
    """
    places, height, width = launch.integer(0), launch.integer(3), launch.integer(4)
    if not places or not height or not width:
        return _unknown(launch)
    return _work(places * (1 + height * width) * _size(launch))
