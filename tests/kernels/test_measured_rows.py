"""What PyTorch's pointwise kernels, reductions, norms, softmax and concatenations take on an H100.

Measured: NVIDIA H100 80GB HBM3, driver 580.159.04, CUDA 13.0, PyTorch 2.11.0, by CUPTI, after a
fill of 512 MiB; and 0.9 us until the next kernel begins. The sum by one block: on an H200, of what
the cache holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sim_server.kernels import KernelTimer

MakeLaunch = Callable[..., dict[str, Any]]

_NATIVE = "void at::native::"
_ADD = "at::native::CUDAFunctor_add<c10::BFloat16>"
_PLACED = f"{_NATIVE}elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<{_ADD}>(...)>"
_CAST = (
    f"{_NATIVE}unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIterator"
    "Base&)::{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::"
    "{lambda(float)#1}, std::array<char*, 2ul>, 4>"
)
_SUM = "at::native::func_wrapper_t<{0}, at::native::sum_functor<{0}, float, {0}> >"
_REDUCE = _NATIVE + "reduce_kernel<{0}, at::native::ReduceOp<{1}, {2}, unsigned int, {1}, 4, {3}> >"
_FLOATS = _REDUCE.format("512, 1", "float", _SUM.format("float"), 4)
_COLUMNS = _REDUCE.format("128, 4", "c10::BFloat16", _SUM.format("c10::BFloat16"), 8)
_LARGEST = _REDUCE.format("512, 1", "c10::BFloat16", "at::native::ArgMaxOps<float>", 4)
_NORM = f"{_NATIVE}vectorized_layer_norm_kernel<c10::BFloat16, float, "
_PARAMETERS = f"{_NATIVE}GammaBetaBackwardCUDAKernelTemplate<c10::BFloat16, float, 32u, 32u, 256u>"
_CONCATENATION = f"{_NATIVE}CatArrayBatchedCopy<at::native::OpaqueType<2u>, unsigned int, 4, 64>"

# Of each: name, grid, block, arguments, sizes and microseconds.
CASES: dict[str, tuple[str, Any, Any, Any, dict[str, int], float]] = {
    "a row is added": (_PLACED, (65536,), (128,), ((0, 33_554_432),), {}, 91.3),
    "cast": (
        *(_CAST, (65536,), (128,), ((0, 33_554_432),)),
        {"load_bytes": 2, "store_bytes": 4},
        107.0,
    ),
    "sum of rows": (
        *(_FLOATS, (512,), (32, 16), ()),
        {"num_inputs": 4096, "num_outputs": 8192},
        58.2,
    ),
    "sum by one block": (
        *(_FLOATS, (1,), (512,), ()),
        {"num_inputs": 65536, "num_outputs": 1},
        8.2,
    ),
    "sum of columns by many blocks": (
        *(_COLUMNS, (4, 512), (32, 4), ()),
        {"num_inputs": 32768, "num_outputs": 512},
        50.6,
    ),
    "largest of long rows": (
        *(_LARGEST, (8192,), (32, 16), ()),
        {"num_inputs": 50304, "num_outputs": 8192},
        441.6,
    ),
    "layer norm": (f"{_NORM}false>", (4096,), (32, 4), ((0, 768),), {}, 12.2),
    "RMS norm": (f"{_NORM}true>", (8192,), (32, 4), ((0, 4096),), {}, 58.8),
    "parameters of a norm": (_PARAMETERS, (16,), (32, 32), ((0, 32768), (1, 512)), {}, 147.8),
    "softmax of short rows": (
        *("void softmax_warp_forward<float, float, float, 10>", (1024,), (32, 4)),
        *(((2, 4096), (3, 768), (4, 768)), {}, 12.3),
    ),
    "concatenation without vectors": (
        *(_CONCATENATION, (264, 2), (512,), ((3, 3), (4, 1))),
        {"elements": 8_388_608},
        38.2,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_measured(timers: dict[str, KernelTimer], launch: MakeLaunch, case: str) -> None:
    """Within a quarter; before, these were a fourth to twice of it."""
    name, grid, block, arguments, sizes, measured_us = CASES[case]
    signature = launch(f"{name}(float*)", (*grid, 1, 1)[:3], (*block, 1, 1)[:3], arguments, sizes)
    timing = timers["h100"].time(signature)
    assert timing.duration_ns / 1000 == pytest.approx(measured_us, rel=0.25)
