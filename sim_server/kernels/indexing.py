"""Kernels that move elements around: embedding, gather and scatter, concatenation, sorting and
scanning.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod

from sim_server.gpu import GpuProfile
from sim_server.kernels.names import number_types, split_list, type_bytes
from sim_server.kernels.work import L2_SHARE, Launch, Work, guessed
from sim_server.lookups import Lookups, Share, hit_rates
from sim_server.lookups.distributions import repeating_evenly

# More than any launch sorts or scans (assumed).
_MOST_ITEMS = 2**31 - 1

# Share of a streaming kernel's rate: embeddings by Triton (linkedin/Liger-Kernel@ead96b61).
_ROWS = 0.93
# Assumed: others'.
_ELEMENTS = 0.4
_CONCATENATION = 0.85
# Vectors of inputs, and cycles of a multiprocessor for a block: fitted to H100
# (docs/accuracy-operators.md).
_VECTORS = 0.97
_BLOCK_CYCLES = 80
_SHIFTED = 0.75
_SORT = 0.6
_INDEX_BYTES = 8
# Until an index is there, and its row can be asked for: single embeddings take 3 us where an
# addition takes 2 (microsoft/vidur@7d47513).
_INDEX_NS = 900
# Of a multiprocessor, for an element of a row that indexSelectLargeIndex copies: fitted to
# embeddings in f32 on A100 (linkedin/Liger-Kernel@ead96b61), checked on those in 16 bits
# (microsoft/vidur@7d47513).
_PLACE_CYCLES = 1.93
# EmbeddingBag: elements that a multiprocessor adds up in a cycle, and the share of the rows' time
# in memory that is not hidden. Fitted to bags of 150 rows, all different or one in most bags, on
# H100 (pytorch/pytorch#167834, "after", as in PyTorch since 2.10).
_BAG_ELEMENTS_PER_CYCLE = 1.73
_BAG_MEMORY = 0.3
_POINTER_TYPE = re.compile(r"TensorInfo<([\w:<> ]+?)(?: const)?, ")


def gather_rows(launch: Launch, gpu: GpuProfile) -> Work:
    """vectorized_gather_kernel(out, in, indices, rows, row bytes, rows of the table, ...): the
    forward pass of an embedding. A table that the L2 cache holds is read from memory once.
    """
    rows, row_bytes = launch.integer(0), launch.integer(1)
    if rows is None or row_bytes is None:
        return guessed(launch)
    read = rows
    table = launch.integer(2)
    if table is not None and 0 < table * row_bytes < gpu.l2_bytes / 2:
        read = min(rows, table)
    moved = (rows + read) * row_bytes + rows * _INDEX_BYTES
    return Work(bytes=moved, efficiency=_ROWS, serial_ns=_INDEX_NS)


def _read_rows(
    table: Lookups, lookups: int, row_bytes: int, out_bytes: float, gpu: GpuProfile
) -> float:
    """Of lookups, those whose rows come from memory: what the L2 cache does not hold. `out_bytes`:
    what of the result passes through it for each.
    """
    share = Share(table, lookups, row_bytes, out_bytes + _INDEX_BYTES)
    (rate,) = hit_rates([share], L2_SHARE * gpu.l2_bytes)
    return lookups * (1 - rate)


def scatter_rows(launch: Launch, _gpu: GpuProfile) -> Work:
    """vectorized_scatter_kernel(out, in, indices, rows, row bytes, rows of the result, ...) and
    tma_scatter_kernel, which has the elements of a row in place of its bytes: reads, adds, writes.
    """
    rows, length = launch.integer(0), launch.integer(1)
    if rows is None or length is None:
        return guessed(launch)
    row_bytes = length
    if "tma_scatter" in launch.name.family:
        sizes = map(type_bytes, launch.name.template)
        row_bytes *= next((size for size in sizes if size is not None), 4)
    moved = rows * (3 * row_bytes + _INDEX_BYTES)
    return Work(bytes=moved, efficiency=_ELEMENTS, sound=False)


def indexed(launch: Launch, _gpu: GpuProfile) -> Work:
    """index_elementwise_kernel and _scatter_gather_elementwise_kernel(elements, ...).

    An index, a read and a write per element. flip has no index, and all of a line are read.
    """
    elements = launch.integer(0)
    if elements is None:
        return guessed(launch)
    size = _moved_bytes(launch.name.template[-1] if launch.name.template else "")
    if "flip_kernel_impl" in launch.name.text:
        return Work(bytes=elements * 2 * size, efficiency=_SHIFTED)
    return Work(bytes=elements * (2 * size + _INDEX_BYTES), efficiency=_ELEMENTS)


def _moved_bytes(function: str) -> int:
    """Bytes of the first number type among the template arguments of the wrapped kernel."""
    arguments = split_list(function[function.find("<") + 1 :])
    return next((size for size in map(type_bytes, arguments) if size is not None), 4)


def embedding_bag(launch: Launch, gpu: GpuProfile) -> Work:
    """EmbeddingBag_updateOutputKernel_*(..., indices, bags, features, ...): a row per index,
    of which the L2 cache holds those that repeat, where the launch tells how many differ.
    """
    indices, bags, features = (launch.integer(position) for position in range(3))
    if indices is None or bags is None or features is None:
        return guessed(launch)
    size = type_bytes(launch.name.template[0]) or 4
    row_bytes = features * size
    read: float = indices
    if indices > 0 and (distinct := launch.sizes.get("distinct")) is not None:
        table = repeating_evenly(indices, distinct)
        read = _read_rows(table, indices, row_bytes, bags / indices * row_bytes, gpu)
    moved = (read + bags) * row_bytes + indices * _INDEX_BYTES
    added_ns = adding_up_ns(indices * features, moved, gpu)
    return Work(bytes=0, serial_ns=added_ns, region="bags")


def adding_up_ns(elements: float, memory_bytes: float, gpu: GpuProfile) -> float:
    """Of bags' rows with so many elements, of which so much comes from memory. A thread adds up one
    feature of a bag, row after row, so that instructions take longer than the rows do.
    """
    moving_ns = memory_bytes / (gpu.bandwidth_bytes_per_ns * _ROWS)
    adding_ns = elements / (_BAG_ELEMENTS_PER_CYCLE * gpu.sm_count * gpu.cycles_per_ns)
    return max(moving_ns, adding_ns + _BAG_MEMORY * moving_ns)


def index_select(launch: Launch, _gpu: GpuProfile) -> Work:
    """indexSelect*, indexFunc*: TensorInfo hides the sizes; large variants pass the total, and are
    bound by the divisions that place an element.
    """
    match = _POINTER_TYPE.search(launch.name.text)
    size = (type_bytes(match[1]) if match else None) or 4
    total = launch.integer(2)
    if total is None or "Large" not in launch.name.family:
        return guessed(launch)
    cycles = total * _PLACE_CYCLES
    return Work(bytes=total * 2 * size, cycles=cycles, efficiency=_ROWS, serial_ns=_INDEX_NS)


def embedding_backward(launch: Launch, _gpu: GpuProfile) -> Work:
    """embedding_backward_feature_kernel(indices, grad, out, rows, stride, ...)."""
    rows, stride = launch.integer(0), launch.integer(1)
    if rows is None or stride is None:
        return guessed(launch)
    size = (number_types(launch.name.template[0]) or [4])[0]
    return Work(bytes=rows * stride * 3 * size, efficiency=_ELEMENTS)


def embedding_partial_sums(launch: Launch, _gpu: GpuProfile) -> Work:
    """compute_grad_weight(indices, grad, offsets, rows, stride, ...): sums of equal indices."""
    rows, stride = launch.parameter(3), launch.parameter(4)
    if rows is None or stride is None:
        return guessed(launch)
    size = (number_types(launch.name.template[0]) or [4])[0]
    # Reads the gradients in sorted order and writes at most as many partial sums in single
    # precision.
    return Work(bytes=rows * stride * (size + 4), efficiency=0.5)


def embedding_scatter_sums(launch: Launch, _gpu: GpuProfile) -> Work:
    """sum_and_scatter(indices, out, stride, ...): the grid covers segments times columns; their
    number is data.
    """
    size = (number_types(launch.name.template[0]) or [4])[0]
    return Work(bytes=launch.blocks * launch.threads * (size + 4), efficiency=0.5, sound=False)


def concatenate(launch: Launch, gpu: GpuProfile) -> Work:
    """CatArrayBatchedCopy*: elements are read from the inputs' metadata. Every input has as many
    blocks as the longest; without vectors the place of each element is worked out.
    """
    elements = launch.sizes.get("elements")
    if elements is None:
        return guessed(launch)
    size = type_bytes(launch.name.template[0]) or 4
    work = Work(bytes=elements * 2 * size, efficiency=_CONCATENATION, cold=True)
    if launch.name.family.endswith("CatArrayBatchedCopy"):
        return replace(work, cycles=elements * gpu.pointwise["moved_cycles"])
    blocks_ns = launch.blocks * _BLOCK_CYCLES / (gpu.sm_count * gpu.cycles_per_ns)
    return replace(work, efficiency=_VECTORS, serial_ns=blocks_ns)


def chunk_cat(launch: Launch, _gpu: GpuProfile) -> Work:
    """chunk_cat_cuda_kernel<out, in>(..., slice bytes, chunk bytes, ratio): FSDP's reduce-scatter
    copy-in.

    The grid is (blocks, chunks, leading dimension); chunk bytes are those of the output. Where
    gradients are of several types, a launch fills only its part of a chunk: 16 bytes a thread.
    """
    chunk_bytes, ratio = launch.integer(1), launch.integer(2)
    if chunk_bytes is None or ratio is None:
        return guessed(launch)
    filled_bytes = min(chunk_bytes, launch.grid[0] * launch.threads * 16)
    written = filled_bytes * launch.grid[1] * launch.grid[2]
    return Work(bytes=written * (1 + 1 / max(1, ratio)), efficiency=_CONCATENATION, cold=True)


def split_copy(launch: Launch, _gpu: GpuProfile) -> Work:
    """split_with_sizes_copy_out_*(..., source stride bytes, chunks): FSDP's all-gather copy-out."""
    stride, chunks = launch.integer(0), launch.integer(1)
    if stride is None or chunks is None:
        return guessed(launch)
    return Work(bytes=2 * stride * chunks, efficiency=_CONCATENATION, cold=True)


def sort_rows(launch: Launch, _gpu: GpuProfile) -> Work:
    """(bitonic|warpMerge|radix)SortKVInPlace(keys, rows, row length, ...): one pass over short
    rows. Their last argument may be the largest number of the type.
    """
    rows, length = launch.integer(0), launch.integer(1)
    if rows is None or length is None:
        return guessed(launch)
    size = next((s for s in map(type_bytes, launch.name.template) if s is not None), 8)
    return Work(bytes=rows * length * 2 * (size + _INDEX_BYTES), efficiency=_SORT)


def top_k(launch: Launch, _gpu: GpuProfile) -> Work:
    """topk::computeBlockDigitCounts(input, length, places, slices, ...) and
    topk::gatherTopK(input, length, k, largest, slices, ...): one pass over all slices; further ones
    of a block over its slice are taken to find it in the cache (assumed). Source:
    aten/src/ATen/native/cuda/TensorTopK.cu.
    """
    is_gather = launch.name.family.endswith("gatherTopK")
    length, slices = launch.parameter(1), launch.parameter(4 if is_gather else 3)
    if length is None or slices is None:
        return guessed(launch)
    size = type_bytes(launch.name.template[0]) or 4
    return Work(bytes=length * slices * size, efficiency=_SORT)


def top_k_fill(launch: Launch, _gpu: GpuProfile) -> Work:
    """topk::fill(output, value, count)."""
    count = launch.parameter(2)
    if count is None:
        return guessed(launch)
    return Work(bytes=count * (type_bytes(launch.name.template[0]) or 4))


def scan_rows(launch: Launch, _gpu: GpuProfile) -> Work:
    """tensor_kernel_scan_innermost_dim(out, in, rows, row length, ...) and
    tensor_kernel_scan_outer_dim(out, in, outer rows, inner rows, row length, ...): cumsum and its
    like, `_with_indices` those of cummax. Read and written once. Source:
    aten/src/ATen/native/cuda/ScanUtils.cuh.
    """
    is_outer = "_outer_dim" in launch.name.family
    sizes = [launch.integer(position) for position in range(3 if is_outer else 2)]
    if None in sizes:
        return guessed(launch)
    items = prod(size or 0 for size in sizes)
    indices_bytes = _INDEX_BYTES if launch.name.family.endswith("_with_indices") else 0
    size = type_bytes(launch.name.template[0]) or 4
    return Work(bytes=items * (2 * size + indices_bytes), efficiency=_SORT)


def selected_rows(launch: Launch, gpu: GpuProfile) -> Work:
    """gatherMedian(values, indices, input, length, slices, ...) and gatherKthValue(input, length,
    k, slices, ...): a block a slice, which it goes over once for each two bits of a value. All but
    the first time it is in a cache, if those of the blocks in flight fit. Source:
    aten/src/ATen/native/cuda/Sorting.cu, SortingRadixSelect.cuh.
    """
    is_median = launch.name.family.endswith("gatherMedian")
    length, slices = (
        launch.parameter(3 if is_median else 1),
        launch.parameter(4 if is_median else 3),
    )
    if length is None or slices is None:
        return guessed(launch)
    size = type_bytes(launch.name.template[0]) or 4
    in_flight = min(slices, gpu.sm_count * launch.resident(gpu))
    passes = 1 if in_flight * length * size <= L2_SHARE * gpu.l2_bytes else 4 * size
    return Work(bytes=length * slices * size * passes, efficiency=_SORT, sound=False)


def modes(launch: Launch, _gpu: GpuProfile) -> Work:
    """compute_mode(input, values, indices, length, slices): sorts each slice in shared memory.
    Source: aten/src/ATen/native/cuda/TensorModeKernel.cuh.
    """
    length, slices = launch.parameter(3), launch.parameter(4)
    if length is None or slices is None:
        return guessed(launch)
    size = type_bytes(launch.name.template[0]) or 4
    return Work(bytes=length * slices * size, efficiency=_SORT, sound=False)


def histogram(launch: Launch, _gpu: GpuProfile) -> Work:
    """kernelHistogram1D<out, in, ...>(out, partial, in, bins, least, most, elements, ...): bincount
    and histc. Source: aten/src/ATen/native/cuda/SummaryOps.cu.
    """
    elements = launch.parameter(6)
    if elements is None:
        return guessed(launch)
    size = type_bytes(launch.name.template[1]) or 4
    return Work(bytes=elements * size, efficiency=_SORT, sound=False)


def roll(launch: Launch, _gpu: GpuProfile) -> Work:
    """roll_cuda_kernel(in, out, elements, ...). Source:
    aten/src/ATen/native/cuda/TensorTransformations.cu.
    """
    elements = launch.integer(0)
    if elements is None:
        return guessed(launch)
    size = type_bytes(launch.name.template[0]) or 4
    return Work(bytes=elements * 2 * size, efficiency=_SHIFTED)


def transpose(launch: Launch, _gpu: GpuProfile) -> Work:
    """transpose_copy_tiled_kernel<word, elements of a word, ...>(in, out, rows, columns, ...), both
    in words; a word's elements come from as many rows. Source: aten/src/ATen/native/cuda/Copy.cu,
    as launched on a simulated GPU.
    """
    rows, columns = launch.integer(0), launch.integer(1)
    template = launch.name.template
    if rows is None or columns is None or len(template) < 2 or not template[1].isdigit():
        return guessed(launch)
    word = type_bytes(template[0]) or 4
    moved = 2 * rows * columns * word * int(template[1])
    return Work(bytes=moved, efficiency=_CONCATENATION, sound=False)


def radix_histogram(launch: Launch, _gpu: GpuProfile) -> Work:
    """CUB's DeviceRadixSortHistogramKernel(bins, keys, items, ...): reads the keys, for all
    passes.
    """
    items = launch.integer(0)
    if items is None:
        return guessed(launch)
    keys = (number_types(launch.name.template[0]) or [8])[0]
    return Work(bytes=items * keys, efficiency=_SORT)


def segmented_sort(launch: Launch, _gpu: GpuProfile) -> Work:
    """CUB's DeviceSegmentedRadixSortKernel(keys, sorted, values, sorted, begins, ends, ...), one
    pass: a block reads a segment's keys to count their digits, then again, with their values, to
    place them. PyTorch's segments are rows of a length that is read from what tells their begins.
    """
    length = launch.sizes.get("segment_items")
    if length is None:
        return guessed(launch)
    keys, values = [size for size in map(type_bytes, launch.name.template) if size][:2] or (4, 8)
    moved = 3 * keys + 2 * values
    return Work(bytes=launch.blocks * length * moved, efficiency=_SORT, sound=False)


def device_wide(launch: Launch, _gpu: GpuProfile) -> Work:
    """CUB's and PyTorch's sorts, scans of all items, selections: the largest integer argument is
    the number of items.
    """
    # The value that a scan of integers begins with is an argument too, and may be the greatest.
    items = max((value for _, value in launch.scalars if value < _MOST_ITEMS), default=0)
    if items <= 0:
        return guessed(launch)
    # Key and value, read and written once a pass.
    return Work(bytes=items * 2 * _item_bytes(launch), efficiency=_SORT)


def _item_bytes(launch: Launch) -> int:
    sizes = number_types(" ".join(launch.name.template[:3]))
    keys = sizes[0] if sizes else 8
    return keys + (0 if "NullType" in launch.name.text or "Scan" in launch.name.family else 8)
