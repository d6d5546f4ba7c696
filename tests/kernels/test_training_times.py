"""Clocks in training: what the tensor cores' power bounds takes longer than in short bursts."""

from __future__ import annotations

from math import ceil
from typing import Any

import pytest

from sim_server.cluster import load_cluster
from sim_server.gpu import GpuProfile, load_gpu
from sim_server.kernels import KernelTimer, Timing
from sim_server.settings import Settings
from sim_server.timings import make_timer

H100 = load_gpu("h100")


def product(m: int, n: int, k: int, number: str = "bf16") -> dict[str, Any]:
    return {"kind": "gemm", "m": m, "n": n, "k": k, **dict.fromkeys("abcd", number)}


def timed(signature: dict[str, Any], gpu: GpuProfile = H100) -> tuple[Timing, Timing]:
    """By the models of short bursts, and in a run."""
    settings = Settings(1, 1, 1, load_cluster("h100"), gpu)
    return KernelTimer(gpu).time(signature), make_timer(settings).time(signature)


def test_large_products_take_longer_in_a_run() -> None:
    """By the profile's factor; the interval reaches from the burst's own to as far above."""
    burst, run = timed(product(4096, 4096, 4096))
    assert run.duration_ns == ceil(burst.duration_ns * 1.07)
    assert burst.interval is not None
    assert run.interval is not None
    assert run.interval.low == pytest.approx(burst.interval.low / 1.07)
    assert run.interval.high == burst.interval.high
    assert run.tier is burst.tier


@pytest.mark.parametrize(
    "signature", [product(16, 4096, 4096), product(4096, 4096, 4096, "f32")], ids=["thin", "f32"]
)
def test_what_draws_less_power_takes_no_longer(signature: dict[str, Any]) -> None:
    """What memory bounds, and what the tensor cores have no part in."""
    burst, run = timed(signature)
    assert run == burst


def test_a_gpu_without_a_factor_takes_what_bursts_take() -> None:
    """No training says otherwise of an A100; profiles in files of earlier versions have none."""
    burst, run = timed(product(4096, 4096, 4096), load_gpu("a100"))
    assert run == burst
    values = H100.to_dict()
    del values["power"]
    assert GpuProfile.from_dict(values).training_factor == 1
