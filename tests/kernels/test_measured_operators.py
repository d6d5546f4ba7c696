"""What PyTorch's kernels that look up, sort, scan and draw take on an H100.

Measured: NVIDIA H100 80GB HBM3, driver 580.159.04, CUDA 13.0, PyTorch 2.11.0, by CUPTI, after a
fill of 512 MiB; and 0.9 us until the next kernel begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sim_server.kernels import KernelTimer

MakeLaunch = Callable[..., dict[str, Any]]

_RADIX = "cub::detail::radix_sort::"
_ONESWEEP = f"{_RADIX}DeviceRadixSortOnesweepKernel<Policy, (cub::SortOrder)0, "
_HISTOGRAM = f"{_RADIX}DeviceRadixSortHistogramKernel<"
_SCAN = "cub::detail::scan::DeviceScan"
_NATIVE = "at::native::"
_SCATTER_ADD = (
    "at::native::_cuda_scatter_gather_internal_kernel<true, float, long>::operator()"
    "<at::native::ReduceAdd>(at::TensorIterator&)"
)
_NORMAL = (
    "distribution_elementwise_grid_stride_kernel<float, 4, normal_and_transform<float, float>, "
    "distribution_nullary_kernel<float, float, float4>>"
)
_UNIFORM = _NORMAL.replace("normal_and", "uniform_and")
_INTEGERS = (
    "distribution_elementwise_grid_stride_kernel<unsigned long, 2, random_from_to_kernel, "
    "distribution_nullary_kernel<long, unsigned long, ulonglong2>>"
)

# Of each: name, grid, block, arguments and microseconds.
SORTING = {
    "a digit of 8,192 indices": (
        _ONESWEEP + "long, cub::OpaqueType<8>, unsigned long long, int, int>",
        ((2, 1, 1), (384, 1, 1), ((8, 8192), (9, 8), (10, 8)), 7.78),
    ),
    "a digit that does not vary": (
        _ONESWEEP + "long, cub::OpaqueType<8>, unsigned long long, int, int>",
        ((2, 1, 1), (384, 1, 1), ((8, 8192), (9, 40), (10, 8)), 6.92),
    ),
    "a digit of a million numbers": (
        _ONESWEEP + "float, cub::OpaqueType<8>, unsigned long long, int, int>",
        ((187, 1, 1), (384, 1, 1), ((8, 1_000_000), (9, 8), (10, 8)), 18.29),
    ),
    "digits of 8,192 indices": (
        _HISTOGRAM + "Policy<long>, (cub::SortOrder)0, long, unsigned long long>",
        ((2112, 1, 1), (128, 1, 1), ((2, 8192), (3, 0), (4, 64)), 4.44),
    ),
    "digits of a million numbers": (
        _HISTOGRAM + "Policy<float>, (cub::SortOrder)0, float, unsigned long long>",
        ((2112, 1, 1), (128, 1, 1), ((2, 1_000_000), (3, 0), (4, 32)), 9.59),
    ),
    "scan": (
        f"{_SCAN}Kernel<Policy<long>, long const*, long*, cub::ScanTileState<long, true>>",
        ((19, 1, 1), (128, 1, 1), ((3, 0), (6, 16384)), 3.81),
    ),
    "scan by key": (
        "cub::detail::scan_by_key::DeviceScanByKeyKernel<Policy<int>, int*, int*, int*>",
        ((1, 1, 1), (288, 1, 1), ((7, 0), (9, 1024)), 4.39),
    ),
    "unique by key": (
        "cub::detail::unique_by_key::DeviceUniqueByKeySweepKernel<Policy<long, int>, long const*>",
        ((2, 1, 1), (640, 1, 1), ((7, 8192), (8, 2)), 5.78),
    ),
    "top-k of short rows": (
        _NATIVE + "sbtopk::gatherTopK<float, unsigned int, 2, false>",
        (
            (16384, 1, 1),
            (64, 1, 1),
            ((1, 64), (2, 8), (3, 1), (4, 16384), (5, 1), (7, 1), (9, 1)),
            51.2,
        ),
    ),
    "gathering top-k of long rows": (
        _NATIVE + "mbtopk::gatherTopK<float, unsigned int, 2>",
        (
            (784, 1, 1),
            (256, 1, 1),
            ((1, 1_000_000), (2, 8), (3, 1), (4, 8), (5, 1), (7, 1), (9, 1), (10, 40), (11, 98)),
            35.43,
        ),
    ),
    "first digit of top-k": (
        _NATIVE + "mbtopk::computeBlockDigitCounts<float, unsigned int, unsigned int, 2>",
        (
            (784, 1, 1),
            (256, 1, 1),
            ((1, 1_000_000), (3, 8), (4, 1), (5, 24), (6, 40), (7, 98), (8, 0)),
            28.0,
        ),
    ),
    "sums of digits of top-k": (
        _NATIVE + "mbtopk::computeDigitCumSum",
        ((8, 1, 1), (256, 1, 1), ((2, 98),), 4.76),
    ),
    "sort of 16,384 rows of 8": (
        _NATIVE + "bitonicSortKVInPlace<2, -1, 16, 16, float, long, at::native::GTOp<float, true>>",
        ((1093, 1, 1), (16, 15, 1), ((1, 16384), (2, 8), (3, 1), (5, 1)), 14.79),
    ),
    "sort of 16,384 rows of 64": (
        _NATIVE + "radixSortKVInPlace<2, -1, 32, 4, float, long, unsigned int>",
        ((16384, 1, 1), (32, 1, 1), ((1, 16384), (2, 64), (3, 1), (5, 1), (6, 0)), 91.4),
    ),
    "sort of 64 rows of 1,024": (
        _NATIVE + "radixSortKVInPlace<2, -1, 32, 32, float, long, unsigned int>",
        ((64, 1, 1), (32, 1, 1), ((1, 64), (2, 1024), (3, 1), (5, 1), (6, 0)), 17.48),
    ),
    "cumsum of 1,024 rows": (
        _NATIVE + "tensor_kernel_scan_innermost_dim<c10::BFloat16, std::plus<c10::BFloat16>>",
        ((32, 1, 1), (16, 32, 1), ((2, 1024), (3, 1024), (4, 4)), 40.36),
    ),
    "cumsum of 16,384 rows": (
        _NATIVE + "tensor_kernel_scan_innermost_dim<float, std::plus<float>>",
        ((512, 1, 1), (16, 32, 1), ((2, 16384), (3, 8192), (4, 4)), 591.8),
    ),
    "bincount": (
        _NATIVE + "cuda::kernelHistogram1D<long, long, long, 1, 2, -1>",
        ((90, 1, 1), (512, 1, 1), ((3, 1000), (6, 1 << 20)), 17.38),
    ),
}
INDEXING = {
    "lookups of rows of 256 bytes": (
        _NATIVE + "vectorized_gather_kernel<16, long>",
        (
            (65536, 1, 1),
            (32, 1, 1),
            ((3, 65536), (4, 256), (5, 1_000_000), (6, 256), (7, 256), (8, 0)),
            41.92,
        ),
    ),
    "scatter_add": (
        _NATIVE + f"_scatter_gather_elementwise_kernel<128, 8, {_SCATTER_ADD}>",
        ((16384, 1, 1), (128, 1, 1), ((0, 16_777_216),), 85.92),
    ),
    "index_put": (
        _NATIVE + "indexing_backward_kernel<c10::BFloat16, 4>",
        (
            (1024, 32, 1),
            (32, 4, 1),
            ((4, 4096), (5, 4096), (6, 0), (7, 1), (8, 1)),
            49.7,
        ),
    ),
    "index_put of single elements, by sample": (
        _NATIVE + "indexing_backward_kernel_stride_1<float>",
        ((88, 1, 32768), (32, 4, 1), ((4, 351), (5, 1), (6, 729), (7, 32768), (8, 1)), 2757.4),
    ),
    "sums of an embedding's gradient": (
        _NATIVE + "compute_grad_weight<c10::BFloat16, long>",
        ((18020, 1, 1), (1024, 1, 1), ((3, 4096), (4, 4096), (8, 4096)), 119.6),
    ),
    "an embedding's gradient": (
        _NATIVE + "sum_and_scatter<c10::BFloat16, long>",
        ((65536, 1, 1), (1024, 1, 1), ((2, 4096), (8, -1), (9, 4096)), 484.8),
    ),
    "gradient of bags": (
        _NATIVE + "compute_grad_weight_bags<float, long>",
        (
            (9011, 1, 1),
            (768, 1, 1),
            ((4, 8192), (5, 768), (6, 0), (9, 0), (13, 768)),
            53.83,
        ),
    ),
    "bags of eight rows": (
        _NATIVE + "EmbeddingBag_updateOutputKernel_sum_mean<float, long>",
        ((1024, 1, 1), (32, 8, 1), ((5, 65536), (6, 8192), (7, 128), (8, 128)), 33.48),
    ),
    "indices of a sort": (
        _NATIVE + "fill_reverse_indices_kernel",
        ((8192, 1, 1), (1024, 1, 1), ((1, 8_388_608),), 31.97),
    ),
    "an assertion": (_NATIVE + "_assert_async_cuda_kernel", ((1, 1, 1), (1, 1, 1), (), 3.11)),
    "cross entropy": (
        _NATIVE + "nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>",
        ((1, 1, 1), (512, 1, 1), ((5, 1), (6, 8192), (7, 50304), (8, 50304), (9, -100)), 19.84),
    ),
    "gradient of cross entropy": (
        _NATIVE + "nll_loss_backward_reduce_cuda_kernel_2d<float, long>",
        ((1, 1, 1), (256, 1, 1), ((5, 1), (6, 4096), (7, 128256), (8, 128256), (9, -100)), 11.04),
    ),
}
DRAWN = {
    "normal": (
        _NATIVE + _NORMAL,
        ((1056, 1, 1), (256, 1, 1), ((0, 33_554_432),), 80.65),
    ),
    "uniform": (
        _NATIVE + _UNIFORM,
        ((1056, 1, 1), (256, 1, 1), ((0, 1 << 20),), 5.35),
    ),
    "integers": (
        _NATIVE + _INTEGERS,
        ((1056, 1, 1), (256, 1, 1), ((0, 1 << 20),), 10.76),
    ),
    "dropout": (
        _NATIVE + "fused_dropout_kernel_vec<c10::BFloat16, float, unsigned int, 1, 16, bool>",
        ((1056, 1, 1), (256, 1, 1), ((0, 1 << 20),), 5.48),
    ),
    "triu": (
        _NATIVE + "triu_tril_kernel<c10::BFloat16, int, true, 4, false>",
        ((65536, 1, 1), (128, 1, 1), ((2, 0), (3, 33_554_432), (4, 4096)), 81.22),
    ),
    "arange": (
        "elementwise_kernel_with_index<int, arange_cuda_out(at::Tensor&)::{lambda(long)#1}>",
        ((262144, 1, 1), (64, 1, 1), ((0, 1 << 24),), 159.3),
    ),
}


CASES: dict[str, tuple[str, Any]] = {**SORTING, **INDEXING, **DRAWN}


@pytest.mark.parametrize("case", CASES)
def test_measured(timers: dict[str, KernelTimer], launch: MakeLaunch, case: str) -> None:
    """Within a fifth, and within the interval that is given."""
    name, (grid, block, arguments, measured_us) = CASES[case]
    timing = timers["h100"].time(launch(f"void {name}(float*)", grid, block, arguments))
    assert timing.duration_ns / 1000 == pytest.approx(measured_us, rel=0.2)
    assert timing.interval is not None
    assert timing.interval.low <= 1000 * measured_us / timing.duration_ns <= timing.interval.high


def test_blocks_begin_one_after_the_other(
    timers: dict[str, KernelTimer], launch: MakeLaunch
) -> None:
    """A quarter as many blocks take a quarter as long, of the same rows in all."""
    name = "void at::native::vectorized_gather_kernel<16, long>(char*)"
    many, few = (
        timers["h100"].time(
            launch(name, (65536 // n, 1, 1), (32 * n, 1, 1), ((3, 65536 // n), (4, 64 * n)))
        )
        for n in (1, 4)
    )
    assert many.duration_ns / few.duration_ns == pytest.approx(3.5, rel=0.15)
