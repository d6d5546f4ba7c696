"""Kernels that go over whole tensors with few threads take what it takes to move these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sim_server.gpu import load_gpu
from sim_server.kernels import KernelTimer, Tier

MakeLaunch = Callable[..., dict[str, Any]]
SIDE = 8192
PLANE_BYTES = 4 * SIDE * SIDE
_NATIVE = "void at::native::"
_NO_ARGUMENTS = "(float*)"
IMAGE = ((2, 64), (3, 128), (4, 128), (5, 64), (6, 64))
"""Channels, height and width, and these of the results."""
RESULTS = 64 * 64 * 64 * 64
VOLUME = (64, 128, 128, 32, 64, 64)
"""Depth, height and width, and these of the results."""


# Grids and arguments as PyTorch 2.15 launches them for a tensor of 256 MiB in f32.
@pytest.mark.parametrize(
    ("name", "arguments", "moved_bytes"),
    [
        pytest.param(
            "tensor_kernel_scan_innermost_dim<float, std::plus<float> >",
            ((256, 1, 1), ((2, SIDE), (3, SIDE), (4, 4)), {}),
            2 * PLANE_BYTES,
            id="cumsum of rows",
        ),
        pytest.param(
            "reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16, at::native::MaxOps<c10::"
            "BFloat16>, unsigned int, c10::BFloat16, 4, 4> >",
            ((SIDE * SIDE // 512, 1, 1), (), {"num_inputs": 2, "num_outputs": SIDE * SIDE}),
            (2 * 2 + 2 + 8) * SIDE * SIDE,
            id="the larger of two and which it is",
        ),
        pytest.param(
            "reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16, at::native::ArgMaxOps<float"
            ">, unsigned int, long, 4, 4> >",
            ((SIDE * SIDE // 512, 1, 1), (), {"num_inputs": 2, "num_outputs": SIDE * SIDE}),
            (2 * 2 + 8) * SIDE * SIDE,
            id="which of two is larger",
        ),
        pytest.param(
            "tensor_kernel_scan_outer_dim<float, unsigned int, std::plus<float> >",
            ((64, 32, 1), ((2, 64), (3, 16384), (4, 64)), {}),
            2 * PLANE_BYTES,
            id="cumsum of columns",
        ),
        pytest.param(
            "tensor_kernel_scan_outer_dim_with_indices<float, std::greater_equal<float> >",
            ((64, 32, 1), ((3, 64), (4, 16384), (5, 64)), {}),
            4 * PLANE_BYTES,
            id="cummax",
        ),
        pytest.param(
            "(anonymous namespace)::transpose_copy_tiled_kernel<unsigned int, 1, 4, 64, false>",
            ((128, 128, 1), ((2, SIDE), (3, SIDE), (4, SIDE), (5, SIDE)), {}),
            2 * PLANE_BYTES,
            id="transpose",
        ),
        pytest.param(
            "(anonymous namespace)::transpose_copy_tiled_kernel<unsigned int, 2, 4, 32, false>",
            ((128, 128, 1), ((2, SIDE // 2), (3, SIDE // 2), (4, SIDE // 2), (5, SIDE // 2)), {}),
            PLANE_BYTES,
            id="transpose in 16 bits",
        ),
        pytest.param(
            "(anonymous namespace)::max_pool_forward_nchw<float, int>",
            ((65536, 1, 1), ((0, RESULTS), *IMAGE, (7, 2), (8, 2)), {}),
            PLANE_BYTES + 12 * RESULTS,
            id="max_pool2d",
        ),
        pytest.param(
            "(anonymous namespace)::avg_pool2d_out_cuda_frame<float, float>",
            ((16384, 1, 1), ((0, RESULTS), *IMAGE, (7, 2), (8, 2)), {}),
            PLANE_BYTES + 4 * RESULTS,
            id="avg_pool2d",
        ),
        pytest.param(
            "(anonymous namespace)::max_pool_forward_nhwc<float, int>",
            ((16, 1, 32), ((1, 64), (2, 64), (3, 128), (4, 128), (5, 64), (6, 64)), {}),
            PLANE_BYTES + 12 * RESULTS,
            id="max_pool2d, channels last",
        ),
        pytest.param(
            "(anonymous namespace)::upsample_nearest2d_out_frame<float, nearest>",
            ((1, 128, 256), ((2, 4096), (3, 128), (4, 128), (5, 256), (6, 256)), {}),
            5 * PLANE_BYTES,
            id="nearest neighbours",
        ),
        pytest.param(
            "(anonymous namespace)::max_pool3d_with_indices_single_out_frame<float>",
            (
                (2, 8, 2048),
                (
                    *((3 + n, size) for n, size in enumerate((8, *VOLUME[:3], 8, *VOLUME[3:]))),
                    (11, 2),
                ),
                {},
            ),
            PLANE_BYTES + 12 * 2048 * 64 * 64,
            id="max_pool3d",
        ),
        pytest.param(
            "(anonymous namespace)::adaptiveaveragepool<float, float>",
            ((2048, 1, 1), (*enumerate(VOLUME), *((6 + n, 1) for n in range(8))), {}),
            PLANE_BYTES + 4 * 2048 * 64 * 64,
            id="adaptive_avg_pool3d",
        ),
        pytest.param(
            "(anonymous namespace)::adaptivemaxpool<float>",
            ((2048, 1, 1), (*enumerate(VOLUME), *((6 + n, 1) for n in range(5))), {}),
            PLANE_BYTES + 12 * 2048 * 64 * 64,
            id="adaptive_max_pool3d",
        ),
        pytest.param(
            "(anonymous namespace)::MultiMarginLoss_forward_kernel<1, float>",
            ((SIDE, 1, 1), ((4, SIDE), (5, SIDE), (6, 1)), {}),
            PLANE_BYTES,
            id="multi_margin_loss",
        ),
        pytest.param(
            "(anonymous namespace)::MultiMarginLoss_backward_kernel<1, float>",
            ((SIDE, 1, 1), ((5, SIDE), (6, SIDE), (7, 1), (9, 1)), {}),
            2 * PLANE_BYTES,
            id="multi_margin_loss's gradient",
        ),
        pytest.param(
            "(anonymous namespace)::multilabel_margin_loss_backward_kernel<float, float>",
            ((SIDE, 1, 1), ((5, SIDE), (6, SIDE), (7, 1), (8, 1)), {}),
            3 * PLANE_BYTES,
            id="multilabel_margin_loss's gradient",
        ),
        pytest.param(
            "(anonymous namespace)::grid_sampler_3d_kernel<float, int>",
            ((64, 1, 1), ((0, 65536),), {"tensor_bytes": 5 * PLANE_BYTES}),
            5 * PLANE_BYTES,
            id="a kernel without a rule that gets tensors",
        ),
    ],
)
def test_time_of_what_is_moved(
    timers: dict[str, KernelTimer],
    launch: MakeLaunch,
    name: str,
    arguments: tuple[tuple[int, ...], tuple[tuple[int, int], ...], dict[str, int]],
    moved_bytes: int,
) -> None:
    """At half to all of the memory's rate."""
    grid, scalars, sizes = arguments
    threads = 128 if name.startswith("reduce_kernel<128") else 512
    call = launch(f"{_NATIVE}{name}{_NO_ARGUMENTS}", grid, (threads, 1, 1), scalars, sizes)
    timing = timers["h100"].time(call)
    rate = moved_bytes / timing.duration_ns / load_gpu("h100").bandwidth_bytes_per_ns
    assert 0.5 < rate < 1


ROWS = 512 * 50304
_LOOKED_UP = "index_elementwise_kernel<128, 4, at::native::{}::{{lambda(int)#1}}>"
_PUT = (
    "gpu_index_kernel<at::native::index_put_kernel_impl<at::native::OpaqueType<4> >(at::Tensor"
    "Iterator&, c10::ArrayRef<long>, c10::ArrayRef<long>)::{lambda(char*, char const*, long)#1}>"
    "(at::TensorIteratorBase&, c10::ArrayRef<long>, c10::ArrayRef<long>)"
)
_PLACED = "index_{}_kernel_impl<at::native::OpaqueType<4> >(at::TensorIterator&, long, long, long)"


@pytest.mark.parametrize(
    ("function", "sizes", "microseconds"),
    [
        (_PUT, {"first_elements": ROWS, "second_elements": 512}, 127.4),
        (_PLACED.format("copy"), {"first_elements": 512, "second_elements": ROWS}, 91.8),
        (_PLACED.format("fill"), {"first_elements": 512}, 75.6),
    ],
    ids=["rows are put", "rows are copied", "rows are filled"],
)
def test_an_index_of_rows_is_read_once(
    launch: MakeLaunch, function: str, sizes: dict[str, int], microseconds: float
) -> None:
    """512 rows of 50,304 elements in f32 take what their places take. Source: NVIDIA H100 80GB
    HBM3, driver 580.159.04, CUDA 13.0, PyTorch 2.11.0, by CUPTI, with the gap to the next kernel.
    """
    arguments = ((ROWS // 512, 1, 1), (128, 1, 1), ((0, ROWS),), sizes)
    full = f"{_NATIVE}{_LOOKED_UP.format(function)}(long, ...)"
    found = KernelTimer(load_gpu("h100")).time(launch(full, *arguments))
    assert found.duration_ns / 1e3 == pytest.approx(microseconds, rel=0.05)


def test_resizing_takes_as_long_as_its_planes(launch: MakeLaunch) -> None:
    """To half the height and width a pixel of a plane takes what it takes to twice: a thread has
    one of each, and waits for it; a little less where the L2 cache has more of them.
    """
    name = f"{_NATIVE}(anonymous namespace)::upsample_bilinear2d_out_frame<float, float>"
    found = []
    for planes, before, after in ((2048, 64, 128), (2048, 256, 128)):
        moved = 4 * planes * (before**2 + after**2)
        sizes = {"tensor_bytes": moved, "planes": planes}
        arguments = ((16, 1, 1), (1024, 1, 1), ((0, after**2), (3, 0)), sizes)
        timing = KernelTimer(load_gpu("h100")).time(launch(name + _NO_ARGUMENTS, *arguments))
        found.append(timing.duration_ns)
    assert found[1] == pytest.approx(found[0], rel=0.03)


@pytest.mark.parametrize(
    ("name", "scalars"),
    [
        ("cdist_kernel_cuda_impl", ((4, 8192), (5, 64), (6, 1 << 26), (7, 1 << 19), (9, 1 << 26))),
        ("pdist_kernel_cuda_impl", ((2, 8192), (3, 64), (7, 1 << 26))),
    ],
)
def test_distances_take_what_their_pairs_take(
    timers: dict[str, KernelTimer],
    launch: MakeLaunch,
    name: str,
    scalars: tuple[tuple[int, int], ...],
) -> None:
    """A grid that goes over them in turn says nothing of how many there are: no less than their
    arithmetic, three operations an element.
    """
    full = f"{_NATIVE}(anonymous namespace)::{name}<float, dists<float>::one>{_NO_ARGUMENTS}"
    timing = timers["h100"].time(launch(full, (4224, 1, 1), (256, 1, 1), scalars, {}))
    arithmetic = 3 * 64 * (1 << 26) / load_gpu("h100").peak_flops_per_ns("f32")
    assert timing.duration_ns > arithmetic


def test_sequences_of_unequal_length(timers: dict[str, KernelTimer], launch: MakeLaunch) -> None:
    """Attention of one of 8,192 and three of 2,730 has a third of the scores of four of 8,192."""
    name = (
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, "
        "false, cutlass::bfloat16_t>, false, true, false, false, false, true, false, false>"
        "(pytorch_flash::Flash_fwd_params)"
    )
    sizes = {"batch": 4, "heads": 16, "kv_heads": 16, "seqlen_q": 8192, "seqlen_k": 8192}
    sizes["head_dim"] = 128

    def timed(**more: int) -> tuple[int, Tier]:
        call = launch(name, (64, 4, 16), sizes=sizes | more)
        timing = timers["h100"].time(call)
        return timing.duration_ns, timing.tier

    equal_ns, tier = timed()
    assert tier == Tier.MODELLED
    assert timed(total_q=4 * 8192) == (equal_ns, tier)
    unequal_ns, tier = timed(total_q=16384)
    assert tier == Tier.ASSUMED
    assert unequal_ns / equal_ns == pytest.approx((1 + 3 * (1 / 3) ** 2) / 4, rel=0.03)


@pytest.mark.parametrize(
    ("name", "length"),
    [
        ("tma_scatter_kernel<at::native::ScatterAddOp, float, long>", 2048),
        ("vectorized_scatter_kernel<at::native::ScatterAddOp, 16, float, long>", 8192),
    ],
)
def test_added_rows_do_not_depend_on_those_of_the_result(
    timers: dict[str, KernelTimer], launch: MakeLaunch, name: str, length: int
) -> None:
    """`index_add_` of 30,000 rows of 2,048 in f32, at 0.4 of the memory's rate."""
    small, large = (
        timers["h100"].time(
            launch(
                f"{_NATIVE}{name}(float*)",
                (3750, 4, 1),
                scalars=((3, 30_000), (4, length), (5, rows), (6, length)),
            )
        )
        for rows in (1000, 10_000_000)
    )
    assert small.duration_ns == large.duration_ns
    rate = 3 * 4 * 2048 * 30_000 / small.duration_ns
    assert rate / load_gpu("h100").bandwidth_bytes_per_ns == pytest.approx(0.4, rel=0.1)


_LISTS = (
    f"{_NATIVE}(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "TensorListMetadata<{depth}>, at::native::(anonymous namespace)::{functor}>(int)"
)
_ADDCMUL = _LISTS.format(
    depth=3, functor="PointwiseOpScalarFunctor<float, 3, 3, 0>, std::multiplies<float>, float"
)
_LERP = _LISTS.format(
    depth=2,
    functor="TernaryOpScalarFunctor<float, 2, 2, 0>, at::native::LerpFunctor<float>, float",
)


def test_a_list_that_is_given_twice_is_read_once(launch: MakeLaunch) -> None:
    """On H100 the squares of gradients that AdamW adds take what its mean of gradients takes, 91.9
    and 91.2 us where other four lists (`addcdiv`) take 118.7.
    """
    timer = KernelTimer(load_gpu("h100"))
    elements, block = 1 << 24, (512, 1, 1)

    def time_ns(name: str, **sizes: int) -> int:
        sizes["elements"] = elements
        return timer.time(launch(name, (256, 1, 1), block, (), sizes)).duration_ns

    lerp = time_ns(_LERP)
    assert time_ns(_ADDCMUL, different_elements=2 * elements) == pytest.approx(lerp, rel=0.01)
    assert time_ns(_ADDCMUL) / lerp == pytest.approx(118.7 / 91.2, rel=0.06)


def test_an_input_that_is_given_twice_is_read_once(launch: MakeLaunch) -> None:
    """`x * x` moves what a function of one tensor does, and takes what that takes."""
    timer = KernelTimer(load_gpu("h100"))
    elements = 1 << 26

    def time_ns(function: str, operands: int, **sizes: int) -> int:
        name = (
            f"{_NATIVE}vectorized_elementwise_kernel<4, at::native::{function}, "
            f"std::array<char*, {operands}ul> >(int, at::native::{function}, "
            f"std::array<char*, {operands}ul>)"
        )
        grid = (elements // 512, 1, 1)
        return timer.time(launch(name, grid, (128, 1, 1), ((0, elements),), sizes)).duration_ns

    product = "BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >"
    of_one = "AUnaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >"
    square = time_ns(product, 3, repeated_inputs=1)
    assert square == pytest.approx(time_ns(of_one, 2), rel=0.02)
    assert time_ns(product, 3) / square == pytest.approx(1.5, rel=0.05)


def _strided(function: str) -> str:
    inner = f"at::native::gpu_kernel_impl_nocast<{function}>"
    closure = f"{inner}(at::TensorIteratorBase&, {function} const&)::{{lambda(int)#1}}"
    return f"{_NATIVE}elementwise_kernel<128, 2, {closure}>(int)"


_COPY = (
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const"
    "::{lambda()#7}::operator()() const::{lambda(float)#1}"
)
_WHERE = "at::native::where_kernel_impl(at::TensorIterator&)::{lambda(bool, float, float)#1}"


@pytest.mark.parametrize(
    ("function", "sizes", "moved"),
    [
        pytest.param(_COPY, {"first_elements": SIDE}, 4, id="copy of an expanded row"),
        pytest.param(_COPY, {"first_elements": SIDE * SIDE}, 8, id="copy"),
        pytest.param(
            "at::native::CUDAFunctor_add<float>",
            {"first_elements": SIDE * SIDE, "second_elements": SIDE},
            8,
            id="sum with a row",
        ),
        pytest.param(
            "at::native::CUDAFunctor_add<float>",
            {"first_elements": SIDE * SIDE, "second_elements": SIDE * SIDE},
            12,
            id="sum of parts of rows",
        ),
        pytest.param(
            _WHERE,
            {
                "first_elements": SIDE,
                "second_elements": SIDE * SIDE,
                "third_elements": SIDE * SIDE,
            },
            12,  # and a flag of each column
            id="choice by a row of flags",
        ),
    ],
)
def test_expanded_operands_are_read_once(
    launch: MakeLaunch, function: str, sizes: dict[str, int], moved: int
) -> None:
    """Bytes for an element of the result, at the rate of a plain strided launch."""
    gpu = load_gpu("h100")
    plain = KernelTimer(gpu).time(
        launch(_strided(_COPY), (1 << 18, 1, 1), (128, 1, 1), ((0, SIDE * SIDE),))
    )
    launched = launch(_strided(function), (1 << 18, 1, 1), (128, 1, 1), ((0, SIDE * SIDE),), sizes)
    found = KernelTimer(gpu).time(launched)
    rate = 0.7 / 0.79 if function != _COPY else 1
    least_ns = 0.68 * SIDE * SIDE / (gpu.sm_count * gpu.cycles_per_ns)
    expected = max(plain.duration_ns * moved / 8 * rate, least_ns)
    assert found.duration_ns == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(
    ("function", "operands", "measured_us"),
    [
        pytest.param(
            "at::native::compare_scalar_kernel<float>(at::TensorIteratorBase&, "
            "at::native::(anonymous namespace)::OpType, float)::{lambda(float)#1}",
            2,
            221.3,
            id="comparison with a number",
        ),
        pytest.param(_WHERE, 4, 569.5, id="choice"),
    ],
)
def test_flags_take_a_byte(
    launch: MakeLaunch, function: str, operands: int, measured_us: float
) -> None:
    """Of 16,384 x 8,192 elements in f32, as measured on H100."""
    name = (
        f"{_NATIVE}vectorized_elementwise_kernel<4, {function}, std::array<char*, {operands}ul> >"
    )
    elements = 16384 * 8192
    call = launch(f"{name}(int)", (elements // 512, 1, 1), (128, 1, 1), ((0, elements),))
    timing = KernelTimer(load_gpu("h100")).time(call)
    assert timing.duration_ns / 1e3 == pytest.approx(measured_us, rel=0.05)


# Elements, sectors of a warp, bytes of an element: microseconds with the gap to the next kernel.
# Source: NVIDIA H100 80GB HBM3, driver 580.159.04, CUDA 13.0, PyTorch 2.11.0, by CUPTI.
@pytest.mark.parametrize(
    ("elements", "sectors", "number", "microseconds"),
    [
        pytest.param(4096 * 4096, 32 + 4, "float", 139.2, id="transposed"),
        pytest.param(64 * 256 * 56 * 56, 32 + 4, "float", 405.4, id="channels last"),
        pytest.param(4096 * 4096, 32 + 2, "c10::BFloat16", 134.6, id="transposed in 16 bits"),
        pytest.param(64 * 197 * 768, 4 + 4, "float", 35.3, id="rows in another order"),
    ],
)
def test_elements_far_apart_take_a_sector_each(
    launch: MakeLaunch, elements: int, sectors: int, number: str, microseconds: float
) -> None:
    """A copy into another order takes what its warps' accesses touch."""
    sizes = {"warp_sectors": sectors, "first_elements": elements}
    copy = _strided(_COPY.replace("float", number))
    called = launch(copy, (elements // 512, 1, 1), (128, 1, 1), ((0, elements),), sizes)
    found = KernelTimer(load_gpu("h100")).time(called)
    assert found.duration_ns / 1e3 == pytest.approx(microseconds, rel=0.12)
