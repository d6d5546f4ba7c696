"""Kernels that work along rows: reductions, softmax, layer norm, cross entropy.

A block has a row. What it reads once more it finds in the L2 cache, unless the rows that are worked
on at a time are more than that holds; and its threads wait for each other between the passes, so
that the time for rows and elements is on top of the memory's. docs/kernels.md has the errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from sim_server.gpu import GpuProfile
from sim_server.kernels.names import number_types, type_bytes
from sim_server.kernels.work import Launch, Work, guessed, held_share, wait_ns

# Shares of a streaming kernel's rate. Reductions: fitted to H100 (docs/accuracy-operators.md).
_REDUCTION = 0.9
_NORM = 0.9  # assumed
# Of a multiprocessor for an element that a reduction combines, by what its operation's name has:
# where it also keeps an index, and where it keeps a mean and a spread. Fitted as above.
_COMBINING_CYCLES = {
    "ArgM": 0.3,
    "MaxOps": 0.3,
    "MinOps": 0.3,
    "Welford": 0.3,
    "sum_functor": 0.12,
    "MeanOps": 0.12,
}
_OTHER_CYCLES, _FLAG_CYCLES = 0.2, 0.15
# The same where neighbours have different outputs, for what also keeps an index.
_ACROSS_CYCLES = {**_COMBINING_CYCLES, "ArgM": 0.42, "MaxOps": 0.48, "MinOps": 0.48}
# Of a thread, which finds its place and gives its result to its neighbours: what rows of a few
# elements take. Fitted to rows of 16 and 56 elements on H100 (as above).
_THREAD_CYCLES = 1.65
_THREAD_COSTS = {"Welford": 3.3}
# A thread goes on when the loads of its last turn are there, and has combined them one by one.
_COMBINING_NS = {"ArgM": 60, "MaxOps": 60, "MinOps": 60, "Welford": 170}
_REDUCTION_START_NS = 1000
# Blocks that share a result count themselves, one after the other; the last one adds up what they
# left in memory, its threads side by side. Fitted as above.
_SHARED_NS = 2000
_COUNTED_NS = 4
_LEFT_NS = 240
# A thread's label, and then the element that it names: two waits a step, fitted, with the softmax
# before them, to linkedin/Liger-Kernel@ead96b61 on A100 (32 threads), and what is beside, to 16
# steps of 128 to 512 threads and 64 of 1,024 on H100 (docs/accuracy-operators.md). Backward nothing
# waits for what is read: a row is written after the other.
_FORWARD_NS = 3000
_FORWARD_WAITS = 1.77
_BACKWARD_NS = 6500
_BACKWARD_ROW_NS = 0.55
# Elements that a thread loads at a time where its neighbours have other outputs.
_ACROSS = 4
_LAST_NUMBER = re.compile(r", (\d+)>")
# ReduceOp<input, operation, index, result, elements at a time, elements of a vector>. Of the
# largest or smallest value of each row there is its place, too, and of both another value. Source:
# aten/src/ATen/native/cuda/ReduceMinValuesKernel.cu, ReduceAMinMaxKernel.cu.
_RESULT = re.compile(r"int, ([^<>,]+), \d+, \d+>$")
_SECOND_RESULT = re.compile(r"\b(MaxOps|MinOps|MinMaxOps)<")
_PLACE_BYTES = 8
# softmax_warp_*: cycles of a multiprocessor for an element, and what a row takes for each of its
# columns, which a warp goes through. Fitted to H100 (docs/accuracy-operators.md).
_WARP_CYCLES = 0.5
_WARP_START_NS, _WARP_COLUMN_NS = 700, 2.5
_WARP_BACKWARD_CYCLES = {False: 0.35, True: 0.58}  # by whether it is of logarithms
# cunn_SpatialSoftMax*: how often a thread waits for an element; share of a streaming kernel's rate.
# Fitted as above, of gradients assumed.
_SPATIAL_WAITS, _SPATIAL = 0.9, 0.54
# GammaBetaBackward*: few blocks go down all rows. Fitted as above.
_PARAMETER_CYCLES = 0.25


@dataclass(frozen=True)
class RowCosts:
    """What a multiprocessor takes for the rows that it works on, beside what memory takes."""

    row_ns: float
    element_cycles: float

    def time_ns(self, launch: Launch, columns: int, gpu: GpuProfile) -> float:
        """Of a launch with a block per row. The rows that a multiprocessor has at a time end
        together.
        """
        at_a_time = launch.resident(gpu)
        rows = max(at_a_time, launch.blocks / gpu.sm_count)
        return rows * (self.row_ns + columns * self.element_cycles / gpu.cycles_per_ns)


@dataclass(frozen=True)
class Misses:
    """When rows that are read again come from memory again.

    The rows in flight stay in the caches while all multiprocessors' L1 caches have room for them,
    or `l2_share` of the L2 cache. Where they need `ramp` times as much more, all of them miss.
    """

    l2_share: float
    ramp: float

    def share(self, launch: Launch, row_bytes: float, gpu: GpuProfile) -> float:
        """Of what a launch with a block per row reads again; `row_bytes`: of all inputs' rows."""
        rows = min(launch.blocks, launch.resident(gpu) * gpu.sm_count)
        l1_bytes = gpu.sm_count * gpu.properties["sharedMemPerMultiprocessor"]
        room = max(self.l2_share * gpu.l2_bytes, l1_bytes)
        return min(1.0, max(0.0, (rows * row_bytes / room - 1) / self.ramp))


# Fitted to A100's rows of sitar-lab/NeuSight@6945927 and linkedin/Liger-Kernel@ead96b61:
# benchmarks/memory_accuracy.py.
MISSES = Misses(l2_share=0.55, ramp=0.36)
NORM = RowCosts(row_ns=76, element_cycles=0.092)
# Since PyTorch 2.8, whose kernels also do RMS norms, as their last template argument says. Fitted
# to H100 (docs/accuracy-operators.md).
NORM_2_8 = RowCosts(row_ns=150, element_cycles=0.092)
RMS_NORM = RowCosts(row_ns=50, element_cycles=0.046)
NORM_BACKWARD_2_8 = RowCosts(row_ns=60, element_cycles=0.06)
SOFTMAX = RowCosts(row_ns=474, element_cycles=0.135)
SOFTMAX_BACKWARD = RowCosts(row_ns=1400, element_cycles=0.08)


@dataclass(frozen=True)
class Passes:
    """Bytes of an element that a kernel moves, has to keep, and reads again."""

    once: int
    kept: int = 0
    again: int = 0


def _rows(launch: Launch, gpu: GpuProfile, costs: RowCosts, columns: int, passes: Passes) -> Work:
    """Of a kernel with a block per row."""
    missed = MISSES.share(launch, columns * passes.kept, gpu)
    return Work(
        bytes=launch.blocks * columns * (passes.once + passes.again * missed),
        serial_ns=costs.time_ns(launch, columns, gpu),
    )


def reduction(launch: Launch, _gpu: GpuProfile) -> Work:
    """reduce_kernel, and what PyTorch has NVRTC compile in its place (prod), whose name has no
    types: inputs per output and outputs are read from ReduceConfig.
    """
    template = launch.name.template
    operation = template[2] if len(template) > 2 else ""
    kinds = number_types(operation)
    size = launch.sizes.get("element_bytes") or (kinds[0] if kinds else 4)
    inputs, outputs = launch.sizes.get("num_inputs"), launch.sizes.get("num_outputs")
    if inputs is None or outputs is None:
        return guessed(launch)
    others = _FLAG_CYCLES if size == 1 else _OTHER_CYCLES
    combining = _ACROSS_CYCLES if _is_across(launch, outputs) else _COMBINING_CYCLES
    threads = launch.blocks * launch.threads
    turns, serial_ns = _turns(launch, operation, inputs, outputs)
    return Work(
        bytes=inputs * outputs * size + outputs * _result_bytes(operation, size),
        efficiency=_REDUCTION,
        cycles=inputs * outputs * _of_operation(combining, operation, others)
        + threads * _of_operation(_THREAD_COSTS, operation, _THREAD_CYCLES),
        waits=turns,
        serial_ns=serial_ns,
    )


def _result_bytes(operation: str, element_bytes: int) -> int:
    """Of all that a reduction finds for one row."""
    result = _RESULT.search(operation)
    first = type_bytes(result[1]) if result else None
    value_bytes = element_bytes if first is None else first
    second = _SECOND_RESULT.search(operation)
    if second is None:
        return value_bytes
    return value_bytes + (value_bytes if second[1] == "MinMaxOps" else _PLACE_BYTES)


def _of_operation(costs: Mapping[str, float], operation: str, others: float) -> float:
    return next((cost for part, cost in costs.items() if part in operation), others)


def _is_across(launch: Launch, outputs: int) -> bool:
    """Whether neighbouring threads have different outputs."""
    return outputs / launch.grid[0] >= launch.block[0]


def _turns(launch: Launch, operation: str, inputs: int, outputs: int) -> tuple[float, float]:
    """How often a thread waits for what it has loaded, and the time of what comes on top.

    Source: aten/src/ATen/native/cuda/Reduce.cuh: blocks along x have different outputs, along y
    parts of the same ones. A thread loads `vt0` elements at a time or, along contiguous ones, a
    vector; both are the last arguments of ReduceOp.
    """
    numbers = _LAST_NUMBER.findall(operation)
    vector = int(numbers[-1]) if numbers else 4
    each = max(1.0, outputs / launch.grid[0])  # outputs of a block
    across = _is_across(launch, outputs)
    together = max(1.0, launch.threads / (launch.block[0] if across else each))
    sharing = launch.grid[1] if len(launch.grid) > 1 else 1
    turns = ceil(inputs / (together * sharing) / (_ACROSS if across else vector))
    serial_ns = _REDUCTION_START_NS + turns * vector * _of_operation(_COMBINING_NS, operation, 0)
    if sharing > 1:
        left = ceil(sharing / together)
        serial_ns += _SHARED_NS + sharing * _COUNTED_NS + left * _LEFT_NS
    return turns, serial_ns


def _types(launch: Launch, count: int) -> list[int]:
    """Bytes of the first `count` template arguments that are number types; 4 where one is not."""
    sizes = [type_bytes(part) for part in launch.name.template]
    known = [size for size in sizes if size is not None][:count]
    return known + [4] * (count - len(known))


def softmax_warp(launch: Launch, _gpu: GpuProfile) -> Work:
    """softmax_warp_forward(out, in, rows, stride, columns, ...) and _backward(grad, ...): short
    rows.
    """
    first, second = _types(launch, 2)
    backward = "backward" in launch.name.family
    rows, columns = launch.integer(0), launch.integer(2)
    if rows is None or columns is None:
        return guessed(launch)
    if backward:
        moved = rows * columns * (first + 2 * second)
        is_of_logarithms = "true" in launch.name.template[4:5]
        return Work(bytes=moved, cycles=rows * columns * _WARP_BACKWARD_CYCLES[is_of_logarithms])
    return Work(
        bytes=rows * columns * (first + second),
        cycles=rows * columns * _WARP_CYCLES,
        serial_ns=_WARP_START_NS + columns * _WARP_COLUMN_NS,
    )


def softmax_block(launch: Launch, gpu: GpuProfile) -> Work:
    """cunn_SoftMaxForward*, cunn_SoftMaxBackward*: a block per row, the last argument is the row's
    length.

    The plain variants read their input three times, backward the gradient twice; those with rows in
    shared memory (Smem) or registers (Reg) once.
    """
    # <vector, of the input, of sums, of the result, ...>
    source, _, result = _types(launch, 3)
    columns = launch.integer(0)
    if columns is None:
        return guessed(launch)
    backward = "Backward" in launch.name.family
    costs = SOFTMAX_BACKWARD if backward else SOFTMAX
    once = 2 * source + result if backward else source + result
    if backward and launch.name.family.endswith("Smem"):
        return Work(bytes=launch.blocks * columns * once)  # as measured on H100
    if launch.name.family.endswith(("Smem", "Reg")):
        return _rows(launch, gpu, costs, columns, Passes(once))
    return _rows(
        launch, gpu, costs, columns, Passes(once, source, source if backward else 2 * source)
    )


def softmax_spatial(launch: Launch, _gpu: GpuProfile) -> Work:
    """cunn_SpatialSoftMax*(out, in, [in,] outer, length, inner): a thread, or those of a block
    along x, go down a column, for the greatest, for the sum, and to write; of gradients only for
    the last two. Source: aten/src/ATen/native/cuda/SoftMax.cu.
    """
    outer, length, inner = (launch.integer(position) for position in range(3))
    if not outer or not length or not inner:
        return guessed(launch)
    backward = "Backward" in launch.name.family
    across, along = launch.grid[0], launch.grid[1] * launch.block[1]
    turns = ceil(outer / across) * ceil(inner / along) * ceil(length / launch.block[0])
    width = _types(launch, 1)[0]
    return Work(
        bytes=outer * length * inner * width * (5 if backward else 4),
        efficiency=_SPATIAL,
        waits=turns * (2 if backward else 3) * _SPATIAL_WAITS,
    )


def norm_forward(launch: Launch, gpu: GpuProfile) -> Work:
    """vectorized_layer_norm_kernel (also RMS norm), which reads its rows twice, and, where vectors
    do not fit, LayerNormForward: a block per row.
    """
    columns = launch.integer(0)
    if columns is None:
        return guessed(launch)
    width = _types(launch, 1)[0]
    if "vectorized" in launch.name.family:
        costs = {"true": RMS_NORM, "false": NORM_2_8}.get(launch.name.template[-1], NORM)
        return _rows(launch, gpu, costs, columns, Passes(2 * width, width, width))
    return Work(bytes=launch.blocks * columns * 2 * width, efficiency=_NORM)


def norm_backward(launch: Launch, gpu: GpuProfile) -> Work:
    """layer_norm_grad_input_kernel[_vectorized]: a block per row reads dY and X twice, writes
    dX.
    """
    columns = launch.integer(-1)
    if columns is None:
        return guessed(launch)
    width = _types(launch, 1)[0]
    costs = NORM_BACKWARD_2_8 if launch.name.template[-1] in {"true", "false"} else NORM
    return _rows(launch, gpu, costs, columns, Passes(3 * width, 2 * width, 2 * width))


def renormed(launch: Launch, _gpu: GpuProfile) -> Work:
    """renormRowsL1(rows, their number, length): multinomial's; a row is in the cache the second
    time.
    """
    rows, columns = launch.integer(0), launch.integer(1)
    if rows is None or columns is None:
        return guessed(launch)
    return Work(bytes=rows * columns * 2 * _types(launch, 1)[0], efficiency=_NORM)


def norm_parameters(launch: Launch, _gpu: GpuProfile) -> Work:
    """GammaBetaBackward*(rows, columns, dY, X, ...): reads both once."""
    rows, columns = launch.integer(0), launch.integer(1)
    if rows is None or columns is None:
        return guessed(launch)
    width = _types(launch, 1)[0]
    return Work(
        bytes=rows * columns * 2 * width,
        efficiency=0.78 if width == 2 else 0.93,  # fitted to H100
        cycles=rows * columns * _PARAMETER_CYCLES,
        waits=2,
    )


def cross_entropy(launch: Launch, gpu: GpuProfile) -> Work:
    """nll_loss_*_2d(..., rows, dimensions, columns, ...): the threads of one block walk the rows
    and touch one element of each; latency, not bandwidth, bounds it. The rows are in the L2 cache
    if all of them fit.
    """
    rows, columns = launch.parameter(6), launch.parameter(8)
    if rows is None or "2d" not in launch.name.family:
        return guessed(launch)
    if "backward" in launch.name.family:
        return Work(bytes=rows * 12, serial_ns=_BACKWARD_NS + rows * _BACKWARD_ROW_NS)
    steps = ceil(rows / launch.threads)
    held = held_share(rows * columns * _types(launch, 1)[0], gpu) if columns else 0
    step_ns = _FORWARD_WAITS * wait_ns(held)
    return Work(bytes=rows * 12, serial_ns=_FORWARD_NS + steps * step_ns)
