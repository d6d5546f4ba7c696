"""Classes, tiers and bounds of kernel timings."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import pytest

from sim_server.gpu import load_gpu, profile_names
from sim_server.kernels import KernelTimer, Tier, Timing, copy_rates, fill_rate
from sim_server.kernels.names import demangle, parse
from sim_server.kernels.rules import RULES

MakeLaunch = Callable[..., dict[str, Any]]

# Class and mangled name of kernels that libtorch_cuda.so of PyTorch 2.15 registers.
_NAMES = [
    tuple(line.split("\t"))
    for line in (Path(__file__).parent / "kernel_names.tsv").read_text().splitlines()
]
_ADD = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul>, false>(int, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul>)"
)
_CAST = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda"
    "(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#7}::operator()() const"
    "::{lambda(float)#1}, std::array<char*, 2ul>, 4, TrivialOffsetCalculator<1, unsigned int>, "
    "TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithCast<1>, "
    "at::native::memory::StoreWithCast<1> >(int)"
)
_CONVERT = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::converting_copy_kernel_cuda"
    "<float, c10::BFloat16>(at::TensorIteratorBase&)::{lambda(float)#1}, std::array<char*, 2ul>, "
    "false>(int)"
)
_ADAM = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::"
    "FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>, float const*>(int)"
)
_LAYER_NORM = (
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, "
    "false>(int, float, c10::BFloat16 const*)"
)


@pytest.mark.parametrize(("kernel_class", "name"), _NAMES)
def test_class_of_real_names(
    timers: dict[str, KernelTimer], launch: MakeLaunch, kernel_class: str, name: str
) -> None:
    """Kernels of PyTorch get their class, and none is free, with or without their sizes."""
    floor_ns = load_gpu("h100").execution["kernel_floor_ns"]
    for scalars in ((), ((0, 1000), (1, 100), (2, 50), (3, 10), (4, 8), (5, 7), (6, 9))):
        timing = timers["h100"].time(launch(name, scalars=scalars))
        assert timing.kernel_class == kernel_class
        assert timing.duration_ns >= floor_ns
        assert timing.name
        assert 0 < timing.sm_demand <= 1


def test_unknown_kernels_are_assumed(timers: dict[str, KernelTimer], launch: MakeLaunch) -> None:
    """A kernel without a rule, and one without its sizes, are of tier assumed."""
    for name in ("_Z9my_kernelPf", "triton_poi_fused_add_0", "extern_c_kernel"):
        timing = timers["h100"].time(launch(name, (1000, 1, 1)))
        assert timing.tier is Tier.ASSUMED
    assert timers["h100"].time(launch(_ADD, (1000, 1, 1))).tier is Tier.ASSUMED


def test_machine_code_tells_the_bytes(timers: dict[str, KernelTimer], launch: MakeLaunch) -> None:
    """Where a Triton kernel's code says what a thread moves, the memory's rate gives its time."""
    plain = launch("triton_poi_fused_add_0", (65536, 1, 1))
    once = timers["h100"].time(plain | {"thread_bytes": 32})
    twice = timers["h100"].time(plain | {"thread_bytes": 64})
    assert once.tier is twice.tier is Tier.MODELLED
    assert twice.duration_ns - once.duration_ns > 0.8 * once.duration_ns
    told = {"block_bytes": str(32 * prod(plain["block"]))}
    assert timers["h100"].time(plain | told) == once
    # Whatever operators it has its name from.
    loss = launch("triton_red_fused_nll_loss_forward_0", (65536, 1, 1))
    assert timers["h100"].time(loss | {"thread_bytes": 32}).duration_ns == once.duration_ns
    norm = launch("_layer_norm_forward_kernel", (65536, 1, 1))
    brought = timers["h100"].time(norm | told)
    assert brought.kernel_class == "triton"
    assert (brought.duration_ns, brought.tier) == (once.duration_ns, Tier.MODELLED)


def test_arguments_of_triton_kernels_count(
    timers: dict[str, KernelTimer], launch: MakeLaunch
) -> None:
    """What a block does by arguments; a kernel that computes for longer than it moves is assumed;
    what a block loads a second time is in the cache if that holds it for all that run at once.
    """

    def timing(row_bytes: int = 1 << 15, **does: str) -> Timing:
        told = {"block_bytes": "3 * p4", "scalars": [(4, row_bytes)], **does}
        return timers["a100"].time(launch("loss_kernel", (8192, 1, 1), block=(512, 1, 1)) | told)

    moving = timing()
    assert timing(1 << 16).duration_ns == pytest.approx(2 * moving.duration_ns, rel=0.02)
    assert timing(block_again="p4").duration_ns == pytest.approx(0.7 * moving.duration_ns, rel=0.05)
    large = timing(1 << 20)
    assert timing(1 << 20, block_again="p4").duration_ns > 0.99 * large.duration_ns
    computing = timing(block_instructions="200 * p4")
    assert (moving.tier, computing.tier) == (Tier.MODELLED, Tier.ASSUMED)
    assert computing.duration_ns > 2 * moving.duration_ns
    once, twice = (timing(block_flops=f"{turns} * 1000 * p4") for turns in (1, 2))
    assert (once.tier, twice.tier) == (Tier.ASSUMED, Tier.ASSUMED)
    assert twice.duration_ns == pytest.approx(2 * once.duration_ns, rel=0.01)


@pytest.mark.parametrize("gpu", profile_names())
@pytest.mark.parametrize(
    ("details", "moved_bytes"),
    [
        ({"name": _ADD, "grid": (65536, 1, 1), "scalars": ((0, 2**26),)}, 6 * 2**26),
        # The types of a converting copy are in its name.
        ({"name": _CONVERT, "grid": (65536, 1, 1), "scalars": ((0, 2**26),)}, 6 * 2**26),
        # bf16 to float, as LoadWithCast and StoreWithCast say.
        (
            {
                "name": _CAST,
                "grid": (131072, 1, 1),
                "scalars": ((0, 2**26),),
                "sizes": {"load_bytes": 2, "store_bytes": 4},
            },
            6 * 2**26,
        ),
        ({"name": _ADAM, "grid": (1024, 1, 1), "sizes": {"elements": 2**26}}, 28 * 2**26),
        ({"name": _LAYER_NORM, "grid": (16384, 1, 1), "scalars": ((0, 4096),)}, 4 * 2**26),
    ],
    ids=["add", "convert", "cast", "adam", "layer-norm"],
)
def test_streaming_kernels_run_at_memory_speed(
    timers: dict[str, KernelTimer],
    launch: MakeLaunch,
    gpu: str,
    details: dict[str, Any],
    moved_bytes: int,
) -> None:
    """Large memory-bound kernels reach between 60 and 95 % of the memory's rate, never more; norms,
    whose threads wait for each other, and casts, whose instructions bound them, may reach less.
    """
    timing = timers[gpu].time(launch(**details))
    assert timing.tier is Tier.MODELLED
    share = moved_bytes / timing.duration_ns * 1e9 / load_gpu(gpu).memory["bandwidth_bytes_per_s"]
    least = 0.4 if details["name"] in {_LAYER_NORM, _CAST} else 0.6
    assert least < share < 0.95


def test_more_elements_never_take_less_time(
    timers: dict[str, KernelTimer], launch: MakeLaunch
) -> None:
    """Durations grow with the number of elements."""
    durations = [
        timers["a100"].time(launch(_ADD, (-(-n // 1024), 1, 1), scalars=((0, n),))).duration_ns
        for n in (1, 1000, 10**5, 10**6, 10**7, 10**8)
    ]
    assert durations == sorted(durations)
    assert durations[0] < 3000 < durations[-1]


def test_one_block_has_one_multiprocessors_bandwidth(
    timers: dict[str, KernelTimer], launch: MakeLaunch
) -> None:
    """A grid of one block cannot use the whole memory's rate."""
    narrow = timers["h100"].time(launch(_ADD, (1, 1, 1), scalars=((0, 10**7),)))
    wide = timers["h100"].time(launch(_ADD, (9766, 1, 1), scalars=((0, 10**7),)))
    assert narrow.duration_ns > 10 * wide.duration_ns
    assert narrow.sm_demand < 0.01 < wide.sm_demand


def test_equal_signatures_equal_timings(launch: MakeLaunch) -> None:
    """A timing depends on the signature alone."""
    signature = launch(_ADD, (10, 1, 1), scalars=((0, 10000),))
    first, second = KernelTimer(load_gpu("h200")), KernelTimer(load_gpu("h200"))
    assert first.time(signature) == second.time(dict(reversed(signature.items())))


def test_chunk_cat_of_several_types_moves_each_byte_once(
    timers: dict[str, KernelTimer], launch: MakeLaunch
) -> None:
    """A launch pays for what it puts into the chunks, not for what other launches do."""
    name = "torch::distributed::fsdp::chunk_cat_cuda_kernel"
    chunk_bytes = 16 * 128 * (60_000 + 8)
    scalars = ((8, 2 * chunk_bytes), (9, chunk_bytes), (10, 1))
    whole, most, little = (
        timers["h100"].time(launch(name, (blocks, 2, 1), scalars=scalars)).duration_ns
        for blocks in (60_008, 60_000, 8)
    )
    assert little < whole / 50
    assert most < whole < most + little


def test_top_k_reads_its_slices(timers: dict[str, KernelTimer], launch: MakeLaunch) -> None:
    """Not what else is an integer: the digits looked for are a mask, and a fill has its value."""
    slices, length, mask = 64, 32_000, 0xFFFF0000
    inside = "mbtopk::computeBlockDigitCounts<float, unsigned int, unsigned int, 2>"
    counts = launch(
        f"at::native::{inside}",
        (768, 1, 1),
        (256, 1, 1),
        ((1, length), (3, slices), (4, 1), (5, 8), (6, 11), (7, 12), (8, mask)),
    )
    gather = launch(
        "at::native::mbtopk::gatherTopK<float, unsigned int, 2>",
        (768, 1, 1),
        (256, 1, 1),
        ((1, length), (2, 50), (3, 1), (4, slices), (5, 1), (7, 1), (9, 1), (10, 11)),
    )
    fill = launch(
        "at::native::mbtopk::fill<unsigned int, unsigned int>", scalars=((1, mask), (2, slices))
    )
    timer = timers["h100"]
    least_ns = slices * length * 4 / load_gpu("h100").bandwidth_bytes_per_ns
    assert least_ns < timer.time(counts).duration_ns < 10 * least_ns
    assert least_ns < timer.time(gather).duration_ns < 20 * least_ns
    assert timer.time(fill).duration_ns < 3_000


@pytest.mark.parametrize(("sizes", "blocks"), [((1024, 1024, 1024), 1024), ((512, 1024, 4096), 16)])
def test_templates_do_not_win_by_a_guess(
    timers: dict[str, KernelTimer], launch: MakeLaunch, sizes: tuple[int, int, int], blocks: int
) -> None:
    """Inductor's product of hidden depth takes longer than cuBLAS's, also where it has few blocks;
    one that tells is believed.
    """
    types = dict.fromkeys("abcd", "bf16") | {"compute": "f32"}
    rival = timers["h100"].time({"kind": "gemm", **dict(zip("mnk", sizes, strict=True)), **types})
    for name in ("triton_mm", "triton_tem_fused_mm_relu_0"):
        hidden = launch(name, (blocks, 1, 1), (128, 1, 1))
        timing = timers["h100"].time(hidden)
        assert timing.tier is Tier.ASSUMED
        assert timing.duration_ns > rival.duration_ns
        assert timers["h100"].time({**hidden, "thread_bytes": 32}).tier is Tier.MODELLED


def test_library_calls_cost(timers: dict[str, KernelTimer]) -> None:
    """A call of another library is timed by its sizes, as assumed."""
    call = {"kind": "library", "library": "cublas", "operation": "dot", "type": "f32"}
    small, large = (timers["h100"].time({**call, "n": n}) for n in (10, 10**8))
    assert small.duration_ns < large.duration_ns
    assert small.tier is Tier.ASSUMED


# Operation, library, size, batch: microseconds. Source: NVIDIA H100 80GB HBM3, driver 580.159.04,
# CUDA 13.0, PyTorch 2.11.0, by CUPTI; an operator with all its kernels, of which it is nearly all.
@pytest.mark.parametrize(
    ("call", "microseconds"),
    [
        (("getrf", "cusolver", 256, 1), 418),
        (("getrf", "cusolver", 2048, 1), 4806),
        (("potrf", "cusolver", 2048, 1), 773),
        (("potrf", "cusolver", 512, 16), 683),
        (("trsm", "cublas", 512, 16), 388),
        (("trsm", "cublas", 256, 1), 51),
        (("syevd", "cusolver", 256, 1), 4700),
        (("syevd", "cusolver", 512, 16), 226_500),
        (("gesvd", "cusolver", 256, 1), 6430),
    ],
)
def test_factorisations_wait_for_their_steps(
    timers: dict[str, KernelTimer], call: tuple[str, str, int, int], microseconds: float
) -> None:
    """As measured, to 40 %: no more is said of them than that they are assumed."""
    operation, library, size, batch = call
    elements = size * size * batch
    sizes = {"m": size, "n": size, "batch": batch, "flops": elements * size, "bytes": 8 * elements}
    names = {"library": library, "operation": operation, "type": "f32"}
    timing = timers["h100"].time({"kind": "library", **names, **sizes})
    assert timing.tier is Tier.ASSUMED
    assert timing.duration_ns / 1e3 == pytest.approx(microseconds, rel=0.4)


def test_a_triangular_solve_goes_through_the_triangle(timers: dict[str, KernelTimer]) -> None:
    """However few right-hand sides there are."""

    def time_ns(sides: int) -> int:
        sizes = {"m": 2048, "n": sides, "batch": 1, "flops": 2048 * sides * 2048, "bytes": 1 << 23}
        names = {"library": "cublas", "operation": "trsm", "type": "f32"}
        return timers["h100"].time({"kind": "library", **names, **sizes}).duration_ns

    assert 0.6 * time_ns(64) < time_ns(1) <= time_ns(64)
    assert time_ns(1) > 32 * 14_000


def test_sparse_product_by_bytes(timers: dict[str, KernelTimer]) -> None:
    """Rows of a dense operand that fits the cache are moved once, others for each element."""
    gpu = load_gpu("h100")
    rows, width, nonzeros = 1 << 16, 64, 1 << 22
    names = {"kind": "library", "library": "cusparse", "operation": "spmm", "type": "f32"}
    sizes = {"m": rows, "n": width, "nonzeros": nonzeros, "index_bytes": 4, "batch": 1}

    def time_ns(inner: int) -> float:
        timing = timers["h100"].time({**names, **sizes, "k": inner})
        assert timing.tier is Tier.ASSUMED
        return timing.duration_ns - gpu.execution["kernel_floor_ns"]

    def bytes_ns(size: int) -> float:
        return size / (0.5 * gpu.bandwidth_bytes_per_ns)

    structure = nonzeros * 8 + (rows + 1) * 4 + rows * width * 4
    assert time_ns(1 << 10) == pytest.approx(bytes_ns(structure + (width << 10) * 4), rel=1e-3)
    assert time_ns(1 << 20) == pytest.approx(bytes_ns(structure + nonzeros * width * 4), rel=1e-3)


def test_complex_product_is_four_real_ones(timers: dict[str, KernelTimer]) -> None:
    """Where arithmetic bounds it, a product of complex numbers takes four times as long."""
    sizes = {"kind": "gemm", "m": 4096, "n": 4096, "k": 4096}

    def time_ns(number: str, compute: str) -> int:
        types = dict.fromkeys("abcd", number) | {"compute": compute}
        return timers["h100"].time({**sizes, **types}).duration_ns

    assert time_ns("c64", "c64") == pytest.approx(4 * time_ns("f32", "f32"), rel=0.1)


def test_unknown_kind_is_refused(timers: dict[str, KernelTimer]) -> None:
    """A payload that docs/records.md does not know is an error, not a guess."""
    with pytest.raises(ValueError, match="'magic'"):
        timers["h100"].time({"kind": "magic"})


def test_names_are_taken_apart() -> None:
    """Family and template arguments survive namespaces, lambdas and templates of namespaces."""
    name = parse(_LAYER_NORM)
    assert name.family == "at::native::(anonymous namespace)::vectorized_layer_norm_kernel"
    assert name.template == ("c10::BFloat16", "float", "false")
    assert name.short == "vectorized_layer_norm_kernel<BFloat16, float, false>"
    assert demangle("_Z1kIiEvPT_") == "void k<int>(int*)"
    assert demangle("_Znonsense") == "_Znonsense"


def test_copy_rates_cover_all_kinds() -> None:
    """Every copy kind has a rate, pageable copies are slower, inside the device is fastest."""
    for gpu in map(load_gpu, profile_names()):
        rates = copy_rates(gpu)
        assert rates.keys() == {(kind, pageable) for kind in range(1, 6) for pageable in (0, 1)}
        assert all(latency > 0 and rate > 0 for latency, rate in rates.values())
        assert rates[1, True][1] < rates[1, False][1] < rates[3, False][1] < fill_rate(gpu)[1]


def test_a_gpu_that_sleeps_does_so_for_its_cycles() -> None:
    """torch.cuda._sleep looks at the multiprocessors' clock."""
    gpu = load_gpu("h100")
    signature = {
        **{"kind": "kernel", "name": "_ZN2at4cuda11spin_kernelEl", "grid": [1, 1, 1]},
        **{"block": [1, 1, 1], "shared_bytes": 0, "scalars": [[0, 10_000_000]]},
    }
    timing = KernelTimer(gpu).time(signature)
    slept_ns = 10_000_000 * 1e6 / gpu.clocks["sm_khz"]
    assert timing.duration_ns == pytest.approx(slept_ns, abs=gpu.execution["kernel_floor_ns"] + 1)
    assert timing.tier is Tier.MODELLED


# What the rules look for, and names that a kernel of the program's own may have.
_WORDS = sorted({word for rule in RULES for word in re.findall(r"\w{5,}", rule.pattern.pattern)})


@pytest.mark.parametrize("arguments", ["", "<float>", "<4, 2>", "<Own<int>, 0, false>"])
@pytest.mark.parametrize("scalars", [(), ((0, 1000),), tuple((i, 7) for i in range(12))])
def test_own_kernels_may_be_called_like_a_library_s(
    timers: dict[str, KernelTimer],
    launch: MakeLaunch,
    arguments: str,
    scalars: tuple[tuple[int, int], ...],
) -> None:
    """Whatever their templates and arguments are, they take some time."""
    for name in (*_WORDS, *(f"my_{word}" for word in _WORDS)):
        timing = timers["h100"].time(launch(f"void {name}{arguments}(float*)", scalars=scalars))
        assert 0 < timing.duration_ns < 1e12, name
