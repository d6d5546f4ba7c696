"""Kernels that look items up in sorted ones, put them where an order says, or repeat them.

All cycles are of a multiprocessor, fitted to 2^19 to 2^23 items on an H100
(docs/accuracy-operators.md).
"""

from __future__ import annotations

from math import log2

from sim_server.gpu import GpuProfile
from sim_server.kernels.names import type_bytes
from sim_server.kernels.work import Launch, Work, guessed

_INDEX_BYTES = 8
# A step of a binary search in what the L1 cache holds.
_SEARCH_CYCLES = 0.32
# Of an item that is put at a place of its own, or fetched from there.
_PLACED_CYCLES = 4.4
_FETCHED_CYCLES = 2.6
# Of an item that a warp repeats: of a few times.
_REPEATED_CYCLES = 15.6
# Of an element of a gradient that is added to that of a table's row, of which most share few.
_GREATEST_CYCLES = 13.0
# Of a lookup with a weight, whose gradient a warp sums up.
_WEIGHT_CYCLES = 146.0


def searched(launch: Launch, _gpu: GpuProfile) -> Work:
    """searchsorted_cuda_kernel<in, out>(out, in, edges, order, items of a row, edges of a row,
    items, ...). Source: aten/src/ATen/native/cuda/Bucketization.cu.
    """
    edges, items = launch.parameter(5), launch.parameter(6)
    if not edges or not items:
        return guessed(launch)
    template = launch.name.template
    moved = sum(type_bytes(template[place]) or _INDEX_BYTES for place in range(2))
    return Work(bytes=items * moved, cycles=items * log2(max(2, edges)) * _SEARCH_CYCLES)


def placed(launch: Launch, _gpu: GpuProfile) -> Work:
    """internal::scatter_kernel(items, values, places, out): where unique items go back to. Source:
    aten/src/ATen/native/cuda/UniqueCub.cu.
    """
    items = launch.integer(0)
    if not items:
        return guessed(launch)
    return Work(bytes=items * 3 * _INDEX_BYTES, cycles=items * _PLACED_CYCLES)


def sorted_pairs(launch: Launch, _gpu: GpuProfile) -> Work:
    """sort_postprocess_kernel<key>(keys, sorted, indices, places, segments, items of a segment):
    fetches each key from its place. Source: aten/src/ATen/native/cuda/SortStable.cu.
    """
    segments, length = launch.parameter(4), launch.parameter(5)
    if not segments or not length:
        return guessed(launch)
    size = type_bytes(launch.name.template[0]) or _INDEX_BYTES
    items = segments * length
    return Work(bytes=items * 2 * (size + _INDEX_BYTES), cycles=items * _FETCHED_CYCLES)


def repeated(launch: Launch, _gpu: GpuProfile) -> Work:
    """compute_cuda_kernel(counts, their sums, out, items, results): repeat_interleave's. How many
    results there are is on the GPU; 1.5 of each item were measured. Source:
    aten/src/ATen/native/cuda/Repeat.cu.
    """
    items = launch.parameter(3)
    if not items:
        return guessed(launch)
    return Work(bytes=items * 3 * _INDEX_BYTES, cycles=items * _REPEATED_CYCLES, sound=False)


def greatest_gradient(launch: Launch, _gpu: GpuProfile) -> Work:
    """EmbeddingBag_accGradParametersKernel_max<type, index>(places, gradient, out, row length,
    bags, ...). Source: aten/src/ATen/native/cuda/EmbeddingBag.cu.
    """
    columns, bags = launch.parameter(3), launch.parameter(4)
    if not columns or not bags:
        return guessed(launch)
    size = type_bytes(launch.name.template[0]) or 4
    elements = columns * bags
    return Work(bytes=elements * (3 * size + _INDEX_BYTES), cycles=elements * _GREATEST_CYCLES)


def weight_gradient(launch: Launch, _gpu: GpuProfile) -> Work:
    """_embedding_bag_per_sample_weights_backward_kernel<type, index>(gradient, ..., lookups, row
    length, ...): a warp for each lookup. Source: as of `greatest_gradient`.
    """
    lookups, columns = launch.parameter(8), launch.parameter(9)
    if not lookups or not columns:
        return guessed(launch)
    size = type_bytes(launch.name.template[0]) or 4
    return Work(bytes=lookups * 2 * columns * size, cycles=lookups * _WEIGHT_CYCLES)
