"""Operations that move elements around: embedding, concatenation, sorting, scanning, pooling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from phantora_py.profile.calls.common import Call, filled
from phantora_py.profile.calls.elementwise import types_in
from sim_server.kernels.names import type_bytes
from sim_server.kernels.work import Launch

# Bytes of a number, and a type that has as many.
_OF_BYTES = {1: "uint8", 2: "bfloat16", 4: "float32", 8: "float64"}


def gather(torch: Any, launch: Launch) -> Iterator[Call]:
    """vectorized_gather_kernel(out, in, indices, rows, row bytes, table rows, ...): an embedding,
    or rows chosen.
    """
    rows, row_bytes, table = (launch.integer(position) for position in range(3))
    if not rows or not row_bytes or not table:
        return
    kind = torch.float32 if row_bytes % 4 == 0 else torch.uint8
    weight = filled(torch, [table, row_bytes // kind.itemsize], kind)
    for number in (torch.int64, torch.int32):
        indices = _spread(torch, rows, table).to(number)
        yield _apply(torch.embedding, weight, indices)
        yield _apply(torch.index_select, weight, 0, indices)


def embedding_backward(torch: Any, launch: Launch) -> Iterator[Call]:
    """Gradients of an embedding: sorted and summed, or added one after the other."""
    is_sum = "compute_grad_weight" in launch.name.family
    rows = launch.parameter(3) if is_sum else launch.integer(0)
    columns = launch.parameter(4) if is_sum else launch.integer(1)
    if not rows or not columns or "sum_and_scatter" in launch.name.family:
        return  # The last one's grid hangs on the indices.
    indices = _spread(torch, rows, rows)
    for kind in types_in(torch, launch.name.text):
        if kind.is_floating_point:
            gradient = filled(torch, [rows, columns], kind)
            backward = torch.ops.aten.embedding_dense_backward
            yield _apply(backward, gradient, indices, rows, -1, False)


def concatenate(torch: Any, launch: Launch) -> Iterator[Call]:
    """CatArrayBatchedCopy*: equal parts, side by side or one after the other."""
    elements, parts = launch.sizes.get("elements"), launch.grid[1]
    size = type_bytes(launch.name.template[0]) if launch.name.template else None
    if not elements or size not in _OF_BYTES:
        return
    kind = getattr(torch, _OF_BYTES[size])
    each = elements // parts
    first = elements - each * (parts - 1)
    lengths = [first] + [each] * (parts - 1)
    yield _apply(torch.cat, [filled(torch, [length], kind) for length in lengths])
    # In a launch for equal parts, the size of the dimension that they are joined in is told.
    told = [value for _, value in launch.scalars if value > 1]
    for columns in dict.fromkeys([*(value // parts for value in told), *told, 64, 128, 1024]):
        if columns > 0 and first == each and each % columns == 0:
            matrices = [filled(torch, [length // columns, columns], kind) for length in lengths]
            yield _apply(torch.cat, matrices, 0)
            yield _apply(torch.cat, matrices, 1)


def sort(torch: Any, launch: Launch) -> Iterator[Call]:
    """(bitonic|warpMerge|radix)SortKVInPlace(keys, rows, row length, ...)."""
    rows, length = launch.integer(0), launch.integer(1)
    if not rows or not length:
        return
    for kind in types_in(torch, launch.name.text):
        yield _apply(torch.sort, filled(torch, [rows, length], kind))


def scan(torch: Any, launch: Launch) -> Iterator[Call]:
    """Cumulative sums along the last dimension, of rows or of all."""
    numbers = [value for _, value in launch.scalars]
    items = max(numbers, default=0)
    if items <= 0:
        return
    sizes = [items] if "DeviceScan" in launch.name.family else numbers[:2]
    for kind in types_in(torch, launch.name.text):
        yield _apply(torch.cumsum, filled(torch, sizes, kind), -1)


def max_pool(torch: Any, launch: Launch) -> Iterator[Call]:
    """max_pool_forward_nchw(elements, in, channels, height, width, out height, out width, window,
    stride, padding, dilation, ...); of nhwc the first is the batch.
    """
    numbers = [value for _, value in launch.scalars[:14]]
    if len(numbers) < 14:
        return
    first, channels, height, width, out_height, out_width = numbers[:6]
    window, stride, padding, dilation = (numbers[at : at + 2] for at in (6, 8, 10, 12))
    last = "nhwc" in launch.name.family
    batch = first if last else first // (channels * out_height * out_width)
    if batch < 1:
        return
    form = torch.channels_last if last else torch.contiguous_format
    for kind in types_in(torch, launch.name.text):
        if kind.is_floating_point:
            x = filled(torch, [batch, channels, height, width], kind)
            x = x.contiguous(memory_format=form)
            pool = torch.ops.aten.max_pool2d_with_indices
            yield _apply(pool, x, window, stride, padding, dilation)


def average_pool(torch: Any, launch: Launch) -> Iterator[Call]:
    """avg_pool2d_out_cuda_frame(elements, in, channels, height, width, out height, out width,
    window, stride, padding, ...).
    """
    numbers = [value for _, value in launch.scalars[:12]]
    if len(numbers) < 12 or "nhwc" in launch.name.family:
        return
    elements, channels, height, width, out_height, out_width = numbers[:6]
    window, stride, padding = (numbers[at : at + 2] for at in (6, 8, 10))
    batch = elements // (channels * out_height * out_width)
    for kind in types_in(torch, launch.name.text) if batch else []:
        if kind.is_floating_point:
            x = filled(torch, [batch, channels, height, width], kind)
            yield _apply(torch.ops.aten.avg_pool2d, x, window, stride, padding)


def _spread(torch: Any, count: int, limit: int) -> Any:
    """Indices below `limit`, each as often as the others, in no order."""
    return torch.randperm(count, device="cuda") % limit


def _apply(operation: Any, *arguments: Any) -> Call:
    return lambda: operation(*arguments)
