"""Kernels that sort, select, count and scan: what a block does one step after another bounds most
of them, so that few elements take long and many of them not much longer.

Constants without another source are fitted to the launches measured on an H100
(docs/accuracy-operators.md).
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import ceil, log2, prod

from sim_server.gpu import GpuProfile
from sim_server.kernels.dispatch import dispatch_cycles
from sim_server.kernels.names import number_types, type_bytes
from sim_server.kernels.work import Launch, Work, guessed

# More than any launch sorts or scans (assumed).
_MOST_ITEMS = 2**31 - 1
_INDEX_BYTES = 8

# Assumed: share of a streaming kernel's rate.
_SORT = 0.6
# CUB's sort by digits of 8 bits: what a tile takes until its items are placed, what more where they
# go to many places, and the bytes that a multiprocessor places in a cycle. In memory 0.77 of the
# streaming rate: the 29.4 billion keys a second that arXiv:2206.01784 has for 32 bits on A100.
_DIGIT_BITS = 8
_TILE_NS = 4100.0
_PLACES_NS = 1900.0
_PLACED_BYTES_PER_CYCLE = 9.1
_ONESWEEP = 0.77
# The same of passes over segments: as long with H200's memory as with H100's.
_SEGMENT_BYTES_PER_CYCLE = 7.7
# Its histogram: a block's bins are cleared and added to those of all in memory, by atomics.
_HISTOGRAM_NS = 1150.0
_HISTOGRAM_DIGIT_NS = 180.0
_HISTOGRAM_TILE = 2048
_ATOMICS_PER_CYCLE = 0.32
# One step after the other: what these kernels take beside their bytes, however few there are.
_STEPS_NS = (
    (re.compile(r"RadixSortExclusiveSumKernel$"), 420.0),
    (re.compile(r"DeviceScanKernel$"), 1900.0),
    (re.compile(r"DeviceScanByKeyKernel$"), 2500.0),
    (re.compile(r"DeviceUniqueByKeySweepKernel$"), 3200.0),
    (re.compile(r"computeBlockwiseKthCounts$"), 900.0),
    (re.compile(r"krn_partial"), 650.0),
    (re.compile(r"compute_num_of_partial_segments$"), 320.0),
)
# The same of a block, which learns how many of its items are among the k, for all of a slice.
_WITHIN_NS = 1600.0
# top-k of a slice that one block goes over for each two bits of a value; of parts of slices, a
# part's items are counted by their digit, where they have the digits found so far, and gathered.
_SELECT_PASS_NS = 775.0
# Assumed: of a pass, for each further item of a thread.
_SELECT_ITEM_NS = 200.0
_SELECT_BITS = 2
_LOOK_CYCLES = 0.34
# Between what it takes where the L2 cache has the slices (0.17, H200) and where it has not (0.51).
_COUNT_CYCLES = 0.38
# Assumed: of what has the digits found so far, the share that also has the next one.
_SAME_DIGIT = 0.4
_GATHER_CYCLES = 1.07
# Of a block, whatever it has to do.
_COUNT_BLOCK_CYCLES, _GATHER_BLOCK_CYCLES = 210, 360
_DIGIT_SUM_NS = 1070.0
_DIGIT_SUM_STEP_NS = 15.4
# The same of what looks for a median or the k-th value.
_VALUE_PASS_NS = 600.0
_VALUE_ITEM_NS = 210.0
# Rows sorted by one block. A step of a bitonic sort compares each pair; a pass of a sort by digits
# is over 4 bits, and takes cycles for an item and for a thread.
_BITONIC_STEP_NS = 227.0
_BITONIC_STEP_CYCLES = 0.64
# Of a mode, of 64-bit values: it also finds where they change, and how often each occurs.
_MODE_STEP_CYCLES = 0.85
_ROW_DIGIT_BITS = 4
_ROW_PASS_NS = 1600.0
_ROW_PASS_CYCLES, _ROW_PASS_THREAD_CYCLES = 0.57, 2.6
# Scans of rows: two elements a thread are scanned, then the next ones.
_SCAN_STEP_NS = 1000.0
_SCAN_CYCLES = 0.58
# The same where what is combined takes longer (cummax, logcumsumexp): of each of so many steps
# more than there are levels of the tree over a row's threads.
_SCAN_LEVEL_NS, _SCAN_LEVELS = 190.0, 6
_SCANNED = 0.93
# Down columns: a thread has one, and waits for each of its elements.
_COLUMN_WAITS = 0.95
_COLUMNS = 0.82
# A thread's element of a histogram: it is divided by the width of a bin and counted.
_BIN_STEP_NS = 555.0
# Where bins are too many for shared memory: cycles of a multiprocessor for an atomic.
_BIN_CYCLES = 3.4
_GLOBAL_BINS = "CUDAHistogramMemoryType)1"


def _waves(launch: Launch, gpu: GpuProfile) -> float:
    """How often the multiprocessors are filled with blocks; at least once."""
    return max(1.0, launch.blocks / (gpu.sm_count * launch.resident(gpu)))


def _value_bytes(launch: Launch) -> int:
    """Bytes of the first number type among the template arguments."""
    return next((size for size in map(type_bytes, launch.name.template) if size is not None), 4)


def sort_rows(launch: Launch, gpu: GpuProfile) -> Work:
    """(bitonic|warpMerge|radix)SortKVInPlace<.., threads, items of each, ...>(keys, rows, row
    length, ...): rows of at most 4,096, by one block each. The last argument may be the largest
    number of the type. Source: aten/src/ATen/native/cuda/Sort.cu, SortUtils.cuh.
    """
    rows, length = launch.integer(0), launch.integer(1)
    template = launch.name.template
    if rows is None or length is None:
        return guessed(launch)
    size = next((s for s in map(type_bytes, template) if s is not None), 8)
    moved = rows * length * 2 * (size + _INDEX_BYTES)
    if "radix" in launch.name.family and len(template) > 3 and template[3].isdigit():
        passes = ceil(8 * size / _ROW_DIGIT_BITS)
        threads = launch.blocks * launch.threads
        thread_cycles = _ROW_PASS_THREAD_CYCLES + int(template[3]) * _ROW_PASS_CYCLES
        return Work(
            bytes=moved,
            efficiency=_SORT,
            cycles=threads * passes * thread_cycles,
            serial_ns=passes * _ROW_PASS_NS,
        )
    steps = _bitonic_steps(2 * launch.block[0])
    return Work(
        bytes=moved,
        efficiency=_SORT,
        cycles=launch.blocks * launch.threads * steps * _BITONIC_STEP_CYCLES,
        serial_ns=steps * _BITONIC_STEP_NS,
    )


def _bitonic_steps(width: int) -> float:
    """Of a sort of so many items."""
    return ceil(log2(width)) * (ceil(log2(width)) + 1) / 2


def top_k(launch: Launch, gpu: GpuProfile) -> Work:
    """topk::gatherTopK(input, length, k, largest, slices, ...). A block a slice looks for the k-th
    value, two bits after the other, and goes over the slice for each; where slices are long other
    kernels have found it, and blocks gather from parts of slices (mbtopk). Source:
    aten/src/ATen/native/cuda/TensorTopK.cu, SortingRadixSelect.cuh.
    """
    length, slices = launch.parameter(1), launch.parameter(4)
    if length is None or slices is None:
        return guessed(launch)
    size = _value_bytes(launch)
    moved = length * slices * size
    if "mbtopk" in launch.name.family:
        cycles = length * slices * _GATHER_CYCLES + launch.blocks * _GATHER_BLOCK_CYCLES
        return Work(bytes=moved, efficiency=_SORT, cycles=cycles)
    pass_ns = _SELECT_PASS_NS + (ceil(length / launch.threads) - 1) * _SELECT_ITEM_NS
    passes = 8 * size / _SELECT_BITS
    return Work(bytes=moved, efficiency=_SORT, serial_ns=_waves(launch, gpu) * passes * pass_ns)


def top_k_counts(launch: Launch, _gpu: GpuProfile) -> Work:
    """topk::computeBlockDigitCounts(input, length, places, slices, ..., mask of the bits that are
    found): all items are looked at, and those with the digits found so far counted. Source: as
    above.
    """
    length, slices, mask = launch.parameter(1), launch.parameter(3), launch.parameter(8)
    if length is None or slices is None:
        return guessed(launch)
    found = (mask or 0).bit_count() // _DIGIT_BITS
    cycles = _LOOK_CYCLES + _COUNT_CYCLES * _SAME_DIGIT**found
    items = length * slices
    return Work(
        bytes=items * _value_bytes(launch),
        efficiency=_SORT,
        cycles=items * cycles + launch.blocks * _COUNT_BLOCK_CYCLES,
    )


def top_k_digit_sums(launch: Launch, gpu: GpuProfile) -> Work:
    """topk::computeDigitCumSum(counts, sums, parts of a slice): a thread adds up a digit's counts
    of all parts. Source: as above.
    """
    parts = launch.parameter(2)
    if parts is None:
        return guessed(launch)
    counts_bytes = launch.blocks * launch.threads * parts * 2
    block_ns = _DIGIT_SUM_NS + parts * _DIGIT_SUM_STEP_NS
    return Work(bytes=counts_bytes, serial_ns=_waves(launch, gpu) * block_ns)


def top_k_fill(launch: Launch, _gpu: GpuProfile) -> Work:
    """topk::fill(output, value, count)."""
    count = launch.parameter(2)
    if count is None:
        return guessed(launch)
    return Work(bytes=count * (type_bytes(launch.name.template[0]) or 4))


def scan_rows(launch: Launch, gpu: GpuProfile) -> Work:
    """tensor_kernel_scan_innermost_dim(out, in, rows, row length, ...) and
    tensor_kernel_scan_outer_dim(out, in, outer rows, inner rows, row length, ...): cumsum and its
    like, `_with_indices` those of cummax. Read and written once. Threads along a row scan two
    elements each, and then go on to the next ones. Source:
    aten/src/ATen/native/cuda/ScanUtils.cuh.
    """
    is_outer = "_outer_dim" in launch.name.family
    sizes = [launch.integer(position) for position in range(3 if is_outer else 2)]
    if None in sizes:
        return guessed(launch)
    items = prod(size or 0 for size in sizes)
    indices_bytes = _INDEX_BYTES if launch.name.family.endswith("_with_indices") else 0
    size = type_bytes(launch.name.template[0]) or 4
    moved = items * (2 * size + indices_bytes)
    if is_outer:
        waits = ceil(_waves(launch, gpu)) * (sizes[2] or 0) * _COLUMN_WAITS
        return Work(bytes=moved, efficiency=_COLUMNS, waits=waits)
    steps, step_ns = ceil((sizes[1] or 0) / (2 * launch.block[0])), _SCAN_STEP_NS
    if indices_bytes or "logcumsumexp" in launch.name.text:
        step_ns = _SCAN_LEVEL_NS * (_SCAN_LEVELS + log2(launch.block[0]))
    return Work(
        bytes=moved,
        efficiency=_SCANNED,
        cycles=items * _SCAN_CYCLES,
        serial_ns=_waves(launch, gpu) * steps * step_ns,
    )


def selected_rows(launch: Launch, gpu: GpuProfile) -> Work:
    """gatherMedian(values, indices, input, length, slices, ...) and gatherKthValue(input, length,
    k, slices, ...): a block a slice, which it goes over once for each two bits of a value, all but
    the first time in a cache. Source: aten/src/ATen/native/cuda/Sorting.cu,
    SortingRadixSelect.cuh.
    """
    is_median = launch.name.family.endswith("gatherMedian")
    length, slices = (
        launch.parameter(3 if is_median else 1),
        launch.parameter(4 if is_median else 3),
    )
    if length is None or slices is None:
        return guessed(launch)
    size = type_bytes(launch.name.template[0]) or 4
    passes = 8 * size / _SELECT_BITS
    pass_ns = _VALUE_PASS_NS + (ceil(length / launch.threads) - 1) * _VALUE_ITEM_NS
    return Work(
        bytes=length * slices * size,
        efficiency=_SORT,
        serial_ns=_waves(launch, gpu) * passes * pass_ns,
    )


def modes(launch: Launch, _gpu: GpuProfile) -> Work:
    """compute_mode(input, values, indices, length, slices): sorts each slice in shared memory.
    Source: aten/src/ATen/native/cuda/TensorModeKernel.cuh.
    """
    length, slices = launch.parameter(3), launch.parameter(4)
    if length is None or slices is None:
        return guessed(launch)
    size = type_bytes(launch.name.template[0]) or 4
    steps = _bitonic_steps(2 * launch.threads)
    return Work(
        bytes=length * slices * size,
        efficiency=_SORT,
        cycles=launch.blocks * launch.threads * steps * _MODE_STEP_CYCLES,
        serial_ns=steps * _BITONIC_STEP_NS,
    )


def histogram(launch: Launch, gpu: GpuProfile) -> Work:
    """kernelHistogram1D<out, in, ...>(out, partial, in, bins, least, most, elements, ...): bincount
    and histc. A thread has one element after the other. Source:
    aten/src/ATen/native/cuda/SummaryOps.cu.
    """
    elements = launch.parameter(6)
    if elements is None:
        return guessed(launch)
    size = type_bytes(launch.name.template[1]) or 4
    steps = ceil(elements / (launch.blocks * launch.threads)) * _waves(launch, gpu)
    if _GLOBAL_BINS in launch.name.text:
        return Work(bytes=elements * size, efficiency=_SORT, cycles=elements * _BIN_CYCLES)
    return Work(bytes=elements * size, efficiency=_SORT, serial_ns=steps * _BIN_STEP_NS)


def radix_histogram(launch: Launch, gpu: GpuProfile) -> Work:
    """CUB's DeviceRadixSortHistogramKernel(bins, keys, items, first bit, bit after the last, ...):
    reads the keys, for all passes. A block counts the digits of tiles of keys, and adds its counts
    to those of all.
    """
    items, first, end = (launch.integer(position) for position in range(3))
    if items is None:
        return guessed(launch)
    keys = (number_types(launch.name.template[0]) or [8])[0]
    bits = 8 * keys if first is None or end is None else end - first
    passes = ceil(bits / _DIGIT_BITS)
    varied = ceil((_index_bits(items) if bits == 64 else bits) / _DIGIT_BITS)
    counting = min(launch.blocks, ceil(items / _HISTOGRAM_TILE))
    atomics = counting * 2**_DIGIT_BITS * varied
    used = min(gpu.sm_count, launch.blocks)
    return Work(
        bytes=items * keys,
        efficiency=_SORT,
        cycles=atomics / _ATOMICS_PER_CYCLE * used / gpu.sm_count,
        serial_ns=_HISTOGRAM_NS + passes * _HISTOGRAM_DIGIT_NS,
    )


def _index_bits(items: int) -> float:
    """Of integers of 64 bits, those that vary: taken to be indices below the number of items."""
    return log2(max(2, items))


def radix_pass(launch: Launch, gpu: GpuProfile) -> Work:
    """CUB's DeviceRadixSortOnesweepKernel<policy, order, key, ...>(..., items, first bit, ...):
    a tile of items is ranked by a digit, learns from the tiles before it where its own go, and
    places them: read and written once.
    """
    items, first = launch.integer(0), launch.integer(1)
    if items is None:
        return guessed(launch)
    keys = next(map(type_bytes, launch.name.template[2:3]), 8)
    is_varied = keys != 8 or (first or 0) < _index_bits(items)
    moved = items * 2 * _item_bytes(launch)
    # Tiles for a few multiprocessors place theirs while `_TILE_NS` lasts.
    used = min(gpu.sm_count, launch.blocks) / gpu.sm_count
    return Work(
        bytes=moved,
        efficiency=_ONESWEEP,
        cycles=moved / _PLACED_BYTES_PER_CYCLE * used,
        serial_ns=_TILE_NS + _PLACES_NS * is_varied,
    )


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
    total = launch.blocks * length * moved
    cycles = total / _SEGMENT_BYTES_PER_CYCLE
    return Work(bytes=total, efficiency=_ONESWEEP, cycles=cycles, sound=False)


def device_wide(launch: Launch, gpu: GpuProfile) -> Work:
    """CUB's and PyTorch's sorts, scans of all items, selections: the largest integer argument is
    the number of items.
    """
    # The value that a scan of integers begins with is an argument too, and may be the greatest.
    items = max((value for _, value in launch.scalars if value < _MOST_ITEMS), default=0)
    family = launch.name.family
    steps_ns = next((ns for pattern, ns in _STEPS_NS if pattern.search(family)), 0.0)
    if family.endswith("computeBlockwiseWithinKCounts"):
        steps_ns = _waves(launch, gpu) * _WITHIN_NS
    cycles = dispatch_cycles(launch, gpu)
    if items <= 0:
        return replace(guessed(launch), cycles=cycles, serial_ns=steps_ns)
    # Key and value, read and written once a pass.
    item_bytes = 2 * _item_bytes(launch)
    if family.endswith("DeviceReduceKernel"):
        # Only read; of an iterator that transforms them, what it begins with.
        item_bytes = (number_types(launch.name.template[1]) or [8])[0]
    return Work(bytes=items * item_bytes, efficiency=_SORT, cycles=cycles, serial_ns=steps_ns)


def _item_bytes(launch: Launch) -> int:
    sizes = number_types(" ".join(launch.name.template[:3]))
    keys = sizes[0] if sizes else 8
    return keys + (0 if "NullType" in launch.name.text or "Scan" in launch.name.family else 8)
