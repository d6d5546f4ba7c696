"""Kernels that move elements around: embedding, gather and scatter, concatenation.

"H100" after a constant: fitted to the launches measured on one
(docs/accuracy-operators.md).
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import ceil

from sim_server.gpu import GpuProfile
from sim_server.kernels.dispatch import dispatch_cycles
from sim_server.kernels.names import number_types, split_list, type_bytes
from sim_server.kernels.work import L2_SHARE, Launch, Work, guessed
from sim_server.lookups import Lookups, Share, hit_rates
from sim_server.lookups.distributions import repeating_evenly, uniform

# Share of a streaming kernel's rate: embeddings by Triton (linkedin/Liger-Kernel@ead96b61).
_ROWS = 0.93
# Assumed: others'.
_ELEMENTS = 0.4
_CONCATENATION = 0.85
# Vectors of inputs, and cycles of a multiprocessor for a block: fitted to H100
# (docs/accuracy-operators.md).
_VECTORS = 0.97
_BLOCK_CYCLES = 80
# An element's place is worked out by a division for each dimension: `moved_cycles` is fitted to so
# many, and those of two take half of that on an H100.
_CAT_DIMENSIONS = 4
_SHIFTED = 0.75
# Of a multiprocessor, for an element that flip and roll place: H100, in bf16.
_FLIPPED_CYCLES, _ROLLED_CYCLES = 0.68, 1.26
# The same, of kernels that place elements by an index: those that read or write by any number of
# them, index_copy and index_fill: H100, in f32; in bf16 they take as much.
_PLACED_CYCLES = {"gpu_index_kernel": 1.27, "index_copy": 0.9, "index_fill": 0.75}
_INDEX_BYTES = 8
# Until an index is there, and its row can be asked for: single embeddings take 3 us where an
# addition takes 2 (microsoft/vidur@7d47513).
_INDEX_NS = 900
# Of a multiprocessor, for an element of a row that indexSelectLargeIndex copies: fitted to
# embeddings in f32 on A100 (linkedin/Liger-Kernel@ead96b61), checked on those in 16 bits
# (microsoft/vidur@7d47513).
_PLACE_CYCLES = 1.93
# The same where an element of 16 bits is added by an atomic operation: H100.
_HALF_ADD_CYCLES = 2.26
# scatter_add and its like: a thread has elements one after the other, each behind its index; cycles
# of a multiprocessor for each, and share of a streaming kernel's rate: H100.
_SCATTER_STEP_NS = 750
_SCATTER_CYCLES = 0.98
_SCATTERED = 0.86
# index_put with accumulation: a warp reads which lookups are of the same row, then the row; cycles
# for an element: H100.
_ADDED_ROW_NS = 2000
_ADDED_ROW_CYCLES = 0.72
# Of a warp that adds single elements: the pairs of DLRM, on H100 and H200 alike.
_ADDED_ELEMENT_CYCLES = 60
# Gradients of embeddings: a thread's way through the limits of its segment, an index and the
# gradient, of which a multiprocessor's threads are all on the way: H100.
_SEGMENT_CYCLES = 3420
_SEGMENT_SUM_CYCLES = 3950
# EmbeddingBag: elements that a multiprocessor adds up in a cycle, and the share of the rows' time
# in memory that is not hidden. Fitted to bags of 150 rows, all different or one in most bags, on
# H100 (pytorch/pytorch#167834, "after", as in PyTorch since 2.10).
_BAG_ELEMENTS_PER_CYCLE = 1.754
_BAG_MEMORY = 0.3
# What an element of a bag's result takes beside, in additions: bags of 8 rows, H100.
_BAG_BEGINS = 2.1
# Of a multiprocessor, for an index that `sort` writes for an element of its input: H100, and as
# long with H200's memory.
_COUNTED_CYCLES = 0.95
_OPAQUE = re.compile(r"OpaqueType<(\d+)u?>")
_POINTER_TYPE = re.compile(r"TensorInfo<([\w:<> ]+?)(?: const)?, ")


def gather_rows(launch: Launch, gpu: GpuProfile) -> Work:
    """vectorized_gather_kernel(out, in, indices, rows, row bytes, rows of the table, ...): the
    forward pass of an embedding. Rows that repeat are read from memory once while the L2 cache
    holds them.
    """
    rows, row_bytes = launch.integer(0), launch.integer(1)
    if rows is None or row_bytes is None:
        return guessed(launch)
    read: float = rows
    table = launch.integer(2)
    if table is not None and table > 0 and rows > 0:
        read = _read_rows(uniform(table), rows, row_bytes, row_bytes, gpu)
    moved = (rows + read) * row_bytes + rows * _INDEX_BYTES
    cycles = dispatch_cycles(launch, gpu)
    return Work(bytes=moved, efficiency=_ROWS, cycles=cycles, serial_ns=_INDEX_NS)


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
    """index_elementwise_kernel(elements, ...): a read and a write per element, of index_fill a
    write alone, and an index: of rows the launch tells that there are fewer. flip has no index, and
    all of a line are read. Source: aten/src/ATen/native/cuda/IndexKernel.cu.
    """
    elements = launch.integer(0)
    if elements is None:
        return guessed(launch)
    size = _moved_bytes(launch.name.template[-1] if launch.name.template else "")
    if "flip_kernel_impl" in launch.name.text:
        cycles = elements * _FLIPPED_CYCLES
        return Work(bytes=elements * 2 * size, efficiency=_SHIFTED, cycles=cycles)
    is_fill = "index_fill_kernel_impl" in launch.name.text
    # index_fill and index_copy get it before what they copy.
    of_index = "second_elements" if "gpu_index_kernel" in launch.name.text else "first_elements"
    indices = launch.sizes.get(of_index, elements)
    moved = elements * (1 if is_fill else 2) * size + indices * _INDEX_BYTES
    each = next((one for part, one in _PLACED_CYCLES.items() if part in launch.name.text), 0.0)
    return Work(bytes=moved, efficiency=_SCATTERED, cycles=elements * each, serial_ns=_INDEX_NS)


def scattered(launch: Launch, _gpu: GpuProfile) -> Work:
    """_scatter_gather_elementwise_kernel(elements, ...). What is scattered is read and written, or
    added. The index of a scatter is taken to be one for each row, which caches hold (assumed); of
    a gather it is not, for which there is vectorized_gather_kernel. Source:
    aten/src/ATen/native/cuda/ScatterGatherKernel.cu.
    """
    elements = launch.integer(0)
    if elements is None:
        return guessed(launch)
    function = launch.name.template[-1] if launch.name.template else ""
    size = _moved_bytes(function)
    if "_internal_kernel<false" in function:
        moved = 2 * size + _INDEX_BYTES
    else:
        moved = (3 if "Reduce" in function else 2) * size
    return Work(
        bytes=elements * moved,
        efficiency=_SCATTERED,
        cycles=elements * _SCATTER_CYCLES,
        serial_ns=ceil(elements / (launch.blocks * launch.threads)) * _SCATTER_STEP_NS,
    )


def _moved_bytes(function: str) -> int:
    """Bytes of the first number type among the template arguments of the wrapped kernel; of those
    of its parameters only where elements have a type of their own.
    """
    if opaque := _OPAQUE.search(function):
        return int(opaque[1])
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
    added_ns = adding_up_ns(indices * features, bags * features, moved, gpu)
    return Work(bytes=0, serial_ns=added_ns, region="bags")


def adding_up_ns(elements: float, results: float, memory_bytes: float, gpu: GpuProfile) -> float:
    """Of bags' rows with so many elements, and so many of results, of which so much comes from
    memory. A thread adds up one feature of a bag, row after row, so that instructions take longer
    than the rows do.
    """
    moving_ns = memory_bytes / (gpu.bandwidth_bytes_per_ns * _ROWS)
    added = elements + _BAG_BEGINS * results
    adding_ns = added / (_BAG_ELEMENTS_PER_CYCLE * gpu.sm_count * gpu.cycles_per_ns)
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
    is_half_add = size == 2 and "indexFunc" in launch.name.family
    cycles = total * (_HALF_ADD_CYCLES if is_half_add else _PLACE_CYCLES)
    return Work(bytes=total * 2 * size, cycles=cycles, efficiency=_ROWS, serial_ns=_INDEX_NS)


def added_rows(launch: Launch, _gpu: GpuProfile) -> Work:
    """indexing_backward_kernel*(indices, places, values, out, lookups, row length, from one to the
    next of so many samples, samples, ...) of index_put with accumulation: a warp has a lookup, in
    the order of rows, and adds its values to the row, for each sample. All rows are taken to
    differ. Source: aten/src/ATen/native/cuda/Indexing.cu.
    """
    lookups, length, samples = (launch.integer(position) for position in (0, 1, 3))
    if lookups is None or length is None:
        return guessed(launch)
    size = (number_types(launch.name.template[0]) or [4])[0] if launch.name.template else 4
    elements = lookups * length * (samples or 1)
    is_single = launch.name.family.endswith("_stride_1")
    return Work(
        bytes=elements * 3 * size,
        efficiency=_ROWS,
        cycles=elements * (_ADDED_ELEMENT_CYCLES if is_single else _ADDED_ROW_CYCLES),
        serial_ns=_ADDED_ROW_NS,
    )


def embedding_backward(launch: Launch, _gpu: GpuProfile) -> Work:
    """embedding_backward_feature_kernel(indices, grad, out, rows, stride, ...)."""
    rows, stride = launch.integer(0), launch.integer(1)
    if rows is None or stride is None:
        return guessed(launch)
    size = (number_types(launch.name.template[0]) or [4])[0]
    return Work(bytes=rows * stride * 3 * size, efficiency=_ELEMENTS)


def embedding_partial_sums(launch: Launch, gpu: GpuProfile) -> Work:
    """compute_grad_weight(indices, grad, offsets, rows, stride, ...), and `_bags` with its bags
    before the rows: sums of equal indices. There are threads for as many segments as there may be.
    """
    rows, stride = launch.integer(0), launch.integer(1)
    if rows is None or stride is None:
        return guessed(launch)
    size = (number_types(launch.name.template[0]) or [4])[0]
    # Reads the gradients in sorted order and writes at most as many partial sums in single
    # precision.
    moved = rows * stride * (size + 4)
    return Work(bytes=moved, efficiency=_ROWS, cycles=_on_the_way(launch, _SEGMENT_CYCLES, gpu))


def embedding_scatter_sums(launch: Launch, gpu: GpuProfile) -> Work:
    """sum_and_scatter(indices, out, stride, ...): the grid covers segments times columns; their
    number is data.
    """
    size = (number_types(launch.name.template[0]) or [4])[0]
    return Work(
        bytes=launch.blocks * launch.threads * (size + 4),
        efficiency=_ROWS,
        cycles=_on_the_way(launch, _SEGMENT_SUM_CYCLES, gpu),
        sound=False,
    )


def _on_the_way(launch: Launch, cycles: float, gpu: GpuProfile) -> float:
    """Cycles of all multiprocessors where each block takes `cycles`, and as many as there is room
    for are there at a time.
    """
    used = min(gpu.sm_count, launch.blocks)
    return max(used, launch.blocks / launch.resident(gpu)) * cycles


def counted(launch: Launch, _gpu: GpuProfile) -> Work:
    """fill_reverse_indices_kernel(out, elements, divisor): the indices that a sort places."""
    elements = launch.integer(0)
    if elements is None:
        return guessed(launch)
    return Work(bytes=elements * _INDEX_BYTES, cycles=elements * _COUNTED_CYCLES)


def concatenate(launch: Launch, gpu: GpuProfile) -> Work:
    """CatArrayBatchedCopy*: elements are read from the inputs' metadata. Every input has as many
    blocks as the longest; without vectors the place of each element is worked out.
    """
    elements = launch.sizes.get("elements")
    if elements is None:
        return guessed(launch)
    size = type_bytes(launch.name.template[0]) or 4
    work = Work(bytes=elements * 2 * size, efficiency=_VECTORS, cold=True)
    if launch.name.family.endswith("CatArrayBatchedCopy"):
        dimensions = launch.name.template[2] if len(launch.name.template) > 2 else ""
        share = int(dimensions) / _CAT_DIMENSIONS if dimensions.isdigit() else 1.0
        return replace(work, cycles=elements * share * gpu.kernels.moved_cycles)
    blocks_ns = launch.blocks * _BLOCK_CYCLES / (gpu.sm_count * gpu.cycles_per_ns)
    return replace(work, serial_ns=blocks_ns)


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


def roll(launch: Launch, _gpu: GpuProfile) -> Work:
    """roll_cuda_kernel(in, out, elements, ...). Source:
    aten/src/ATen/native/cuda/TensorTransformations.cu.
    """
    elements = launch.integer(0)
    if elements is None:
        return guessed(launch)
    size = type_bytes(launch.name.template[0]) or 4
    cycles = elements * _ROLLED_CYCLES
    return Work(bytes=elements * 2 * size, efficiency=_SHIFTED, cycles=cycles)


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
