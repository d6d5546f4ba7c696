"""Kernels that work along rows: reductions, softmax, layer norm, cross entropy."""

from __future__ import annotations

from sim_server.gpu import GpuProfile
from sim_server.kernels.names import number_types, type_bytes
from sim_server.kernels.work import Launch, Work

# Shares of a streaming kernel's rate. Softmax: median of nine published shapes on A100, of 1,024
# to 32,768 columns, between 0.57 and 0.75 (PrincetonUniversity/LLMCompass@2e015fd, half precision).
# The layer norms there, up to 8,192 columns, are at 1 or above (caches). The others are assumed.
_REDUCTION = 0.85
_SOFTMAX = 0.62
_NORM = 0.9
# Assumed: random reads of one element each, 32 lanes of one block at a time, some of them in flight
# together.
_GATHER_STEP_NS = 150
_LANES = 32


def reduction(launch: Launch, _gpu: GpuProfile) -> Work:
    """reduce_kernel: inputs per output and outputs are read from ReduceConfig."""
    template = launch.name.template
    kinds = number_types(template[2]) if len(template) > 2 else []
    size = kinds[0] if kinds else 4
    inputs, outputs = launch.sizes.get("num_inputs"), launch.sizes.get("num_outputs")
    if inputs is None or outputs is None:
        return Work(bytes=launch.blocks * launch.threads * 16, sound=False)
    return Work(bytes=inputs * outputs * size + outputs * size, efficiency=_REDUCTION)


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
        return Work(bytes=launch.blocks * launch.threads * 16, sound=False)
    width = first + 2 * second if backward else first + second
    return Work(bytes=rows * columns * width, efficiency=_SOFTMAX)


def softmax_block(launch: Launch, _gpu: GpuProfile) -> Work:
    """cunn_SoftMaxForward*, cunn_SoftMaxBackward*: a block per row, the last argument is the row's
    length.

    The plain variants, for long rows, read their input several times, but from L2: the published
    rows of 32,768 take no longer per element than those that stay in shared memory.
    """
    sizes = [size for size in map(type_bytes, launch.name.template) if size is not None]
    source, result = (sizes[0], sizes[-1]) if sizes else (4, 4)
    columns = launch.integer(0)
    if columns is None:
        return Work(bytes=launch.blocks * launch.threads * 16, sound=False)
    inputs = 2 if "Backward" in launch.name.family else 1
    elements = launch.blocks * columns
    return Work(bytes=elements * (inputs * source + result), efficiency=_SOFTMAX)


def softmax_spatial(launch: Launch, _gpu: GpuProfile) -> Work:
    """cunn_SpatialSoftMax*(out, in, [in,] outer, length, inner)."""
    sizes = [launch.integer(position) for position in range(3)]
    if None in sizes:
        return Work(bytes=launch.blocks * launch.threads * 16, sound=False)
    elements = 1
    for size in sizes:
        elements *= size or 1
    width = _types(launch, 1)[0]
    return Work(
        bytes=elements * width * (5 if "Backward" in launch.name.family else 4), efficiency=0.7
    )


def norm_forward(launch: Launch, _gpu: GpuProfile) -> Work:
    """vectorized_layer_norm_kernel (also RMS norm), RowwiseMoments, LayerNormForward: a block per
    row.
    """
    columns = launch.integer(0)
    if columns is None:
        return Work(bytes=launch.blocks * launch.threads * 16, sound=False)
    # The moments only read.
    accesses = 1 if "Moments" in launch.name.family else 2
    return Work(bytes=launch.blocks * columns * accesses * _types(launch, 1)[0], efficiency=_NORM)


def norm_backward(launch: Launch, _gpu: GpuProfile) -> Work:
    """layer_norm_grad_input_kernel[_vectorized]: a block per row reads dY and X twice, mostly
    cached, writes dX.
    """
    columns = launch.integer(-1)
    if columns is None:
        return Work(bytes=launch.blocks * launch.threads * 16, sound=False)
    return Work(bytes=launch.blocks * columns * 3 * _types(launch, 1)[0], efficiency=0.75)


def norm_parameters(launch: Launch, _gpu: GpuProfile) -> Work:
    """GammaBetaBackward*(rows, columns, dY, X, ...): reads both once."""
    rows, columns = launch.integer(0), launch.integer(1)
    if rows is None or columns is None:
        return Work(bytes=launch.blocks * launch.threads * 16, sound=False)
    return Work(bytes=rows * columns * 2 * _types(launch, 1)[0], efficiency=0.7)


def cross_entropy(launch: Launch, _gpu: GpuProfile) -> Work:
    """nll_loss_*_2d: one block walks the rows and touches one element of each; latency, not
    bandwidth, bounds it.
    """
    rows = launch.parameter(6)
    if rows is None or "2d" not in launch.name.family:
        return Work(bytes=launch.blocks * launch.threads * 16, sound=False)
    return Work(bytes=rows * 40, serial_ns=rows / _LANES * _GATHER_STEP_NS)
