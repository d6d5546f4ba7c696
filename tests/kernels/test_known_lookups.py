"""Kernels of lookups in tables whose statistics the user gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sim_server.gpu import load_gpu
from sim_server.kernels import KernelTimer, Tier
from sim_server.kernels.data_aware import KnownTable, LookupTimer

MakeLaunch = Callable[..., dict[str, Any]]

_BAG = "void at::native::EmbeddingBag_updateOutputKernel_sum_mean<float, long>(long const*)"
_GATHER = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)"
_BAGS, _INDICES, _DIM, _ROWS = 65_536, 65_536 * 20, 128, 5_000_000


def _timer(*exponents: float | None, rows: int = _ROWS) -> LookupTimer:
    gpu = load_gpu("a100")
    specs = [
        {"name": "t", "rows": rows, "dim": _DIM}
        | ({} if one is None else {"lookups": {"kind": "zipf", "exponent": one}})
        for one in exponents
    ]
    return LookupTimer(KernelTimer(gpu), gpu, [KnownTable.read(spec) for spec in specs])


def _bag(launch: MakeLaunch, dim: int = _DIM) -> dict[str, Any]:
    scalars = ((4, _INDICES), (5, _BAGS), (6, dim))
    return launch(_BAG, grid=(1024, 1, 1), block=(32, 8, 1), scalars=scalars)


def test_embedding_bag(launch: MakeLaunch) -> None:
    """Less the more its rows repeat, but never less than it takes to add them up."""
    timing = _timer(1.1).time(_bag(launch))
    assert timing.tier is Tier.MODELLED
    even = _timer(0.0).time(_bag(launch)).duration_ns
    gpu = load_gpu("a100")
    adding_ns = _INDICES * _DIM / (1.73 * gpu.sm_count * gpu.cycles_per_ns)
    assert adding_ns < timing.duration_ns < 0.95 * even


@pytest.mark.parametrize(
    ("lookups", "published_us"),
    [
        ({"kind": "uniform"}, 105.9),
        ({"kind": "tbe", "heavy_hitters": [0.9], "q": 0, "s": 0}, 88.6),
        ({"kind": "tbe", "heavy_hitters": [0.09] * 10, "q": 0, "s": 0}, 87.8),
    ],
)
def test_published_bags(launch: MakeLaunch, lookups: dict[str, Any], published_us: float) -> None:
    """2,048 bags of 150 rows of 128 numbers, of 5 million, on H100 (pytorch/pytorch#167834)."""
    gpu, count = load_gpu("h100"), 2048 * 150
    table = KnownTable.read({"name": "t", "rows": 5_000_000, "dim": 128, "lookups": lookups})
    scalars = ((4, count), (5, 2048), (6, 128))
    signature = launch(_BAG, grid=(1024, 1, 1), block=(32, 8, 1), scalars=scalars)
    timing = LookupTimer(KernelTimer(gpu), gpu, [table]).time(signature)
    assert timing.duration_ns / 1000 == pytest.approx(published_us, rel=0.05)


def test_what_no_table_agrees_with(launch: MakeLaunch) -> None:
    """Another width, and kernels that look nothing up, take their usual time."""
    usual = KernelTimer(load_gpu("a100"))
    for other in (_bag(launch, dim=64), launch("void copy_kernel(float*)", grid=(64, 1, 1))):
        assert _timer(1.1).time(other) == usual.time(other)


def test_several_tables(launch: MakeLaunch) -> None:
    """Two tables of the same width: the mean of their times, which is assumed."""
    one, other = (_timer(exponent).time(_bag(launch)) for exponent in (0.5, 1.2))
    both = _timer(0.5, 1.2).time(_bag(launch))
    assert both.duration_ns == pytest.approx((one.duration_ns + other.duration_ns) / 2, rel=0.05)
    assert both.tier is Tier.ASSUMED


def test_embedding(launch: MakeLaunch) -> None:
    """A gather names its table's rows and width; one without statistics is assumed."""
    scalars = ((3, 1_000_000), (4, _DIM * 4), (5, _ROWS))
    gather = launch(_GATHER, grid=(4096, 1, 1), scalars=scalars)
    known = _timer(1.2).time(gather)
    assert known.tier is Tier.MODELLED
    assert known.duration_ns < KernelTimer(load_gpu("a100")).time(gather).duration_ns
    assert _timer(None).time(gather).tier is Tier.ASSUMED
    assert _timer(1.2, rows=7).time(gather) == KernelTimer(load_gpu("a100")).time(gather)


def test_fused_kernels_tell_how_much_they_look_up(launch: MakeLaunch) -> None:
    """FBGEMM's: twice the lookups of the same bags take nearly twice as long, whatever pooling the
    file has.
    """
    name = (
        "void split_embedding_codegen_forward_unweighted_kernel<float, float, float, false, long, "
        "1ul, 32ul>(float const*)"
    )
    sizes = {"weights": _ROWS * _DIM, "bags": _BAGS, "results": _BAGS * _DIM}
    once, twice = (
        _timer(0.0).time(launch(name, grid=(2048, 1, 1), sizes={**sizes, "lookups": count}))
        for count in (_INDICES, 2 * _INDICES)
    )
    assert twice.duration_ns / once.duration_ns == pytest.approx(1.95, abs=0.05)
    assert once.tier is Tier.ASSUMED
