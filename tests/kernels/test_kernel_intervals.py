"""The 90 % intervals that timings carry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sim_server.gpu import GpuProfile, load_gpu, profile_names
from sim_server.kernels import Interval, KernelTimer, Tier

MakeLaunch = Callable[..., dict[str, Any]]
_NAMES = [
    line.split("\t")[1]
    for line in (Path(__file__).parent / "kernel_names.tsv").read_text().splitlines()
]


def product(m: int, n: int, k: int, number: str = "bf16") -> dict[str, Any]:
    return {"kind": "gemm", "m": m, "n": n, "k": k, **dict.fromkeys("abcd", number)}


def interval(timer: KernelTimer, signature: dict[str, Any]) -> Interval:
    found = timer.time(signature).interval
    assert found is not None
    return found


@pytest.mark.parametrize("gpu", profile_names())
def test_every_prediction_has_an_interval_with_a_source(
    timers: dict[str, KernelTimer], launch: MakeLaunch, gpu: str
) -> None:
    """Whatever the kernel, with or without its sizes; it holds the prediction and is no point."""
    scalars = ((0, 1000), (1, 100), (2, 50), (3, 10), (4, 8), (5, 7), (6, 9))
    for name in _NAMES:
        for given in ((), scalars):
            found = interval(timers[gpu], launch(name, scalars=given))
            assert found.low < 1 < found.high
            assert found.source


def test_what_is_assumed_is_less_sure(timers: dict[str, KernelTimer], launch: MakeLaunch) -> None:
    """A kernel without its sizes has a wider interval than one of its class that has them."""
    name = next(name for name in _NAMES if "vectorized_gather_kernel" in name)
    known = timers["h100"].time(launch(name, scalars=((0, 10**5), (1, 8192))))
    unknown = timers["h100"].time(launch(name))
    assert (known.tier, unknown.tier) == (Tier.MODELLED, Tier.ASSUMED)
    assert known.interval is not None
    assert unknown.interval is not None
    assert unknown.interval.low < known.interval.low
    assert unknown.interval.high > known.interval.high


@pytest.mark.parametrize("gpu", ["a100", "h100", "h200"])
def test_products_are_as_sure_as_their_region(timers: dict[str, KernelTimer], gpu: str) -> None:
    """Large ones are the surest; other types than the fitted ones the least."""
    large = interval(timers[gpu], product(4096, 4096, 4096))
    mixed = interval(timers[gpu], product(4096, 4096, 512))
    other = interval(timers[gpu], product(4096, 4096, 4096, "f64"))
    assert large.high / large.low < mixed.high / mixed.low < other.high / other.low
    assert "aiconfigurator" in large.source
    assert other.source == "assumed"


def test_long_training_may_be_slower_than_short_bursts(timers: dict[str, KernelTimer]) -> None:
    """The upper end of a product has the stated factor on top of the fit's."""
    gpu = load_gpu("h100")
    large = interval(timers["h100"], product(4096, 4096, 4096))
    assert large.high == pytest.approx(
        gpu.intervals["gemm large"][1] * gpu.intervals["sustained"][1]
    )


def test_small_operands_may_be_in_the_cache(
    timers: dict[str, KernelTimer], launch: MakeLaunch
) -> None:
    """What L2 has room for may be there or not: that is less sure than what comes from memory."""
    name = next(name for name in _NAMES if "vectorized_elementwise_kernel" in name)
    small, large = (
        interval(timers["h100"], launch(name, (blocks, 1, 1), scalars=((0, blocks * 1024),)))
        for blocks in (1000, 10**6)
    )
    assert small.low < large.low
    assert small.high > large.high


def test_profiles_of_earlier_versions_know_nothing(timers: dict[str, KernelTimer]) -> None:
    """Settings in an old data file have no intervals: everything may be off by a factor of 3."""
    values = load_gpu("h100").to_dict()
    del values["intervals"]
    old = KernelTimer(GpuProfile.from_dict(values))
    found = old.time(product(4096, 4096, 4096))
    assert found.interval == Interval(1 / 3, 3.0, "not known")
    assert found.duration_ns == timers["h100"].time(product(4096, 4096, 4096)).duration_ns
    assert GpuProfile.from_dict(load_gpu("h100").to_dict()) == load_gpu("h100")
