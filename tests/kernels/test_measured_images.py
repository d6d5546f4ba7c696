"""What PyTorch's kernels of images take on an H200: pooling, resizing, norms and the like.

Measured: NVIDIA H200, driver 580.159.04, CUDA 13.0, PyTorch 2.11.0, by CUPTI, with the operator
just before the same; and 0.9 us until the next kernel begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sim_server.kernels import KernelTimer

MakeLaunch = Callable[..., dict[str, Any]]
Numbers = tuple[int, ...]

_AVERAGE = (64, 112, 112, 56, 56, 2, 2, 2, 2, 0, 0)
"""Channels, sizes before and after, window, stride and padding."""
_GREATEST = (64, 112, 112, 56, 56, 3, 3, 2, 2, 1, 1, 1, 1)
_LAST = ((2, 128, 1), (32, 16, 1))
_PLANES = 4096
_DEPTHWISE = (28, 28, 28, 28, 3, 3, 1, 1, 1, 1, 1, 1)


def _from(index: int, values: Numbers) -> tuple[Numbers, ...]:
    return tuple((index + place, value) for place, value in enumerate(values))


# Of each: name, grid, block, arguments, what the tensors have and microseconds.
CASES: dict[str, tuple[str, Numbers, Numbers, tuple[Numbers, ...], int, float]] = {
    "average": (
        "avg_pool2d_out_cuda_frame<float, float>",
        (12544, 1, 1),
        (1024, 1, 1),
        ((0, 12845056), *_from(2, _AVERAGE)),
        0,
        155.0,
    ),
    "average, channels last": (
        "avg_pool2d_out_cuda_frame_nhwc<float, float>",
        (12544, 1, 1),
        (1024, 1, 1),
        ((0, 12845056), *_from(2, _AVERAGE)),
        0,
        324.5,
    ),
    "gradient of an average": (
        "avg_pool2d_backward_out_cuda_frame<float, float, int>",
        (50176, 1, 1),
        (1024, 1, 1),
        ((0, 51380224), *_from(2, _AVERAGE)),
        0,
        938.4,
    ),
    "greatest": (
        "max_pool_forward_nchw<float, int>",
        (50176, 1, 1),
        (256, 1, 1),
        ((0, 12845056), *_from(2, _GREATEST)),
        0,
        204.8,
    ),
    "greatest, channels last": (
        "max_pool_forward_nhwc<float, int>",
        (64, 1, 28),
        (32, 32, 1),
        ((1, 64), *_from(2, _GREATEST)),
        0,
        233.6,
    ),
    "gradient of the greatest": (
        "max_pool_backward_nchw<float, float, int>",
        (49, 64, 64),
        (256, 1, 1),
        ((2, 64), *_from(3, _GREATEST)),
        0,
        578.0,
    ),
    "gradient of the greatest of small images": (
        "max_pool_backward_nchw<float, float, int>",
        (1, 64, 2048),
        (256, 1, 1),
        ((2, 64), *_from(3, (2048, 7, 7, 4, 4, 3, 3, 2, 2, 1, 1, 1, 1))),
        0,
        130.8,
    ),
    "gradient of the greatest, channels last": (
        "max_pool_backward_nhwc<float, float>",
        (64, 2, 56),
        (32, 32, 1),
        ((2, 64), *_from(3, _GREATEST)),
        0,
        460.9,
    ),
    "nearest": (
        "upsample_nearest2d_out_frame<float, nearest>",
        (2, 56, 1024),
        (128, 4, 1),
        _from(2, (4096, 112, 112, 224, 224)),
        0,
        615.3,
    ),
    "nearest, channels last": (
        "upsample_nearest2d_nhwc_out_frame<float, nearest>",
        (200704, 1, 1),
        (1024, 1, 1),
        (*_from(2, (64, 112, 112, 224, 224)), (9, 205520896)),
        0,
        1301.8,
    ),
    "gradient of nearest": (
        "upsample_nearest2d_backward_out_frame<float, float, nearest>",
        (1568, 1, 1),
        (512, 1, 1),
        _from(1, (64, 64, 224, 224, 112, 112)),
        0,
        343.6,
    ),
    "gradient of nearest, channels last": (
        "upsample_nearest2d_backward_nhwc_out_frame<float, float, nearest>",
        (50176, 1, 1),
        (1024, 1, 1),
        (*_from(2, (224, 224, 112, 112, 64)), (9, 51380224)),
        0,
        718.8,
    ),
    "bilinear": (
        "upsample_bilinear2d_out_frame<float, float>",
        (49, 1, 1),
        (1024, 1, 1),
        ((0, 50176), (3, 0)),
        1027604480,
        1755.8,
    ),
    "bilinear, channels last": (
        "upsample_bilinear2d_nhwc_out_frame<float, float>",
        (200704, 1, 1),
        (1024, 1, 1),
        ((2, 0), *_from(3, (64, 112, 112, 224, 224)), (10, 205520896)),
        0,
        1851.8,
    ),
    "gradient of bilinear": (
        "upsample_bilinear2d_backward_out_frame<c10::BFloat16, float>",
        (25088, 1, 1),
        (1024, 1, 1),
        (*_from(0, (131072, 7, 7, 14, 14)), (7, 0)),
        0,
        919.5,
    ),
    "gradient of bilinear, channels last": (
        "upsample_bilinear2d_backward_nhwc_out_frame<c10::BFloat16, float>",
        (200704, 1, 1),
        (1024, 1, 1),
        (*_from(0, (112, 112, 224, 224)), (6, 0), *_from(9, (64, 205520896, 51380224))),
        0,
        2493.4,
    ),
    "depthwise convolution": (
        "conv_depthwise2d_forward_kernel<3, float, int>",
        (6272, 1, 1),
        (1024, 1, 1),
        _from(4, (0, 6422528, 128, 1, *_DEPTHWISE)),
        51384832,
        65.4,
    ),
    "gradient of a depthwise convolution": (
        "conv_depthwise2d_backward_kernel<3, 1, float, int>",
        (6272, 1, 1),
        (1024, 1, 1),
        _from(3, (6422528, 128, 1, 128, *_DEPTHWISE)),
        51384832,
        112.5,
    ),
    "gradient of depthwise weights": (
        "conv_depthwise2d_grad_weight_kernel<float, unsigned int>",
        (1152, 1, 1),
        (256, 1, 1),
        _from(3, (64, 128, 128, 1, *_DEPTHWISE)),
        51384832,
        99.9,
    ),
    "statistics of channels": (
        "batch_norm_collect_statistics_kernel<Var, c10::BFloat16, c10::BFloat16, float, int>",
        (64, 1, 1),
        (512, 1, 1),
        (),
        102760960,
        679.0,
    ),
    "statistics, channels last": (
        "batch_norm_collect_statistics_channels_last_kernel<Var, c10::BFloat16, float, 4>",
        *_LAST,
        ((5, 802816), (6, 64)),
        0,
        190.5,
    ),
    "batch norm": (
        "batch_norm_transform_input_kernel<c10::BFloat16, float, float, true, int>",
        (2048, 64, 1),
        (64, 1, 1),
        (),
        25706496,
        81.3,
    ),
    "batch norm, channels last": (
        "batch_norm_transform_input_channels_last_kernel<c10::BFloat16, float, float, 4>",
        *_LAST,
        ((7, 802816), (8, 64), (9, 0)),
        0,
        115.6,
    ),
    "gradient of a batch norm": (
        "batch_norm_backward_kernel<c10::BFloat16, float, float, int>",
        (64, 1, 1),
        (512, 1, 1),
        ((10, 1),),
        308282624,
        1450.5,
    ),
    "sums of a batch norm's gradient, channels last": (
        "batch_norm_backward_reduce_channels_last_kernel<4, c10::BFloat16, float, float>",
        *_LAST,
        ((10, 802816), (11, 64)),
        0,
        90.7,
    ),
    "gradient of a batch norm, channels last": (
        "batch_norm_backward_elemt_channels_last_kernel<4, c10::BFloat16, float, float>",
        *_LAST,
        ((9, 802816), (10, 64)),
        0,
        137.3,
    ),
    "moments of groups": (
        "RowwiseMomentsCUDAKernel<float>",
        (2048, 1, 1),
        (512, 1, 1),
        ((0, 25088),),
        0,
        112.8,
    ),
    "sums of a group norm's gradient": (
        "ComputeInternalGradientsCUDAKernel<float>",
        (131072, 1, 1),
        (32, 1, 1),
        ((0, 49),),
        0,
        81.3,
    ),
    "parameters of a group norm's gradient": (
        "ComputeBackwardFusedParamsCUDAKernel<float>",
        (64, 32, 1),
        (32, 1, 1),
        ((0, 64), (1, 12544), (2, 32)),
        0,
        4.0,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_measured(timers: dict[str, KernelTimer], launch: MakeLaunch, case: str) -> None:
    """Within a fifth, and within the interval that is given."""
    name, grid, block, arguments, tensor_bytes, measured_us = CASES[case]
    full = f"void at::native::(anonymous namespace)::{name}(float*)"
    sizes = {"tensor_bytes": tensor_bytes, "planes": _PLANES} if tensor_bytes else None
    timing = timers["h200"].time(launch(full, grid, block, arguments, sizes))
    assert timing.duration_ns / 1000 == pytest.approx(measured_us, rel=0.2)
    assert timing.interval is not None
    assert timing.interval.low <= 1000 * measured_us / timing.duration_ns <= timing.interval.high


_LAMBDA = "{lambda(c10::BFloat16, c10::BFloat16, float, float, float)#2}"
_FUNCTION = f"GroupNormBackwardKernelImplInternal<c10::BFloat16>(at::Tensor const&)::{_LAMBDA}"


@pytest.mark.parametrize(
    ("name", "sizes", "measured_us"),
    [
        (
            f"elementwise_kernel<128, 4, at::native::gpu_kernel_impl<at::native::{_FUNCTION}>"
            f"(at::TensorIteratorBase&, at::native::{_FUNCTION} const&)::{{lambda(int)#1}}>",
            (100352, 51380224),
            429.5,
        ),
        ("unrolled_elementwise_kernel_for_multi_outputs<3, at::native::function>", (1, 256), 2.42),
    ],
    ids=["operands that are converted", "several results"],
)
def test_elements_of_norms(
    timers: dict[str, KernelTimer],
    launch: MakeLaunch,
    name: str,
    sizes: tuple[int, int],
    measured_us: float,
) -> None:
    """Within a fifth: each operand that is converted takes instructions of its own."""
    blocks, elements = sizes
    full = f"void at::native::{name}(int)"
    timing = timers["h200"].time(launch(full, (blocks, 1, 1), (128, 1, 1), ((0, elements),)))
    assert timing.duration_ns / 1000 == pytest.approx(measured_us, rel=0.2)


def test_additions_to_one_pixel_wait(timers: dict[str, KernelTimer], launch: MakeLaunch) -> None:
    """The gradients of both resizings of DeepLab's step with 8 images: of one pixel to 64 x 64, and
    of 64 x 64 to 512 x 512. Source: NVIDIA H100 80GB HBM3, PyTorch 2.11.0, by CUPTI, together.
    """
    total_ns = 0
    name = "upsample_bilinear2d_backward_out_frame<float, float>"
    for planes, edge, new_edge in ((8 * 256, 1, 64), (8 * 21, 64, 512)):
        arguments = ((0, planes), (1, edge), (2, edge), (3, new_edge), (4, new_edge))
        blocks = planes * new_edge * new_edge // 1024
        full = f"void at::native::(anonymous namespace)::{name}(float*)"
        total_ns += (
            timers["h100"].time(launch(full, (blocks, 1, 1), (1024, 1, 1), arguments)).duration_ns
        )
    assert total_ns / 1e6 == pytest.approx(19.4, rel=0.1)
