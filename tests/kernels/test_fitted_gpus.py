"""GPUs and types that were fitted by themselves, against a handful of published times."""

from __future__ import annotations

from typing import Any

import pytest

from sim_server.gpu import GpuProfile, load_gpu
from sim_server.kernels import KernelTimer


def _product(m: int, n: int, k: int, number: str, result: str = "") -> dict[str, Any]:
    types = {"a": number, "b": number, "c": result or number, "d": result or number}
    return {"kind": "gemm", "m": m, "n": n, "k": k, "compute": "f32", **types}


@pytest.mark.parametrize(
    ("gpu", "sizes", "published_us"),
    [
        # casys-kaist/LLMServingSim@5daddb2: rows of 4,096 and 14,336 times 1,712 tokens.
        ("rtx4090", (4096, 1712, 14336), 1231.7),
        ("rtx4090", (6144, 1168, 4096), 402.6),
        # ai-dynamo/aiconfigurator@095f58a: small products launch in as little as 2 to 3 us.
        ("b200", (1024, 49, 64), 2.15),
        ("l40s", (10240, 12, 64), 2.87),
    ],
)
def test_products(
    timers: dict[str, KernelTimer], gpu: str, sizes: tuple[int, int, int], published_us: float
) -> None:
    """Within their interval, and within 25 %."""
    timing = timers[gpu].time(_product(*sizes, "bf16"))
    assert timing.interval is not None
    truth = published_us * 1e3 / timing.duration_ns
    assert timing.interval.low < truth < timing.interval.high
    assert truth == pytest.approx(1, abs=0.25)


def test_single_precision_is_fitted_by_itself(timers: dict[str, KernelTimer]) -> None:
    """320 products of 2048 x 2048 x 96 in f32 on an A100: 20 ms (sitar-lab/NeuSight@6945927)."""
    timing = timers["a100"].time({**_product(2048, 2048, 96, "f32"), "batch": 320})
    assert timing.region == "f32"
    assert timing.duration_ns / 1e6 == pytest.approx(20.0, rel=0.3)
    with_tensor_cores = {**_product(2048, 2048, 2048, "f32"), "compute": "tf32"}
    assert timers["a100"].time(with_tensor_cores).region == "other type"


def test_small_products_find_their_operands_in_a_large_cache(
    timers: dict[str, KernelTimer],
) -> None:
    """L40S: 8 MB come faster than a sixteenth of 128 MB."""
    small, large = (
        timers["l40s"].time(_product(n, 8, 1024, "bf16")).duration_ns for n in (4096, 65536)
    )
    assert small < 0.6 * large / 16 + 2100


def test_profiles_of_earlier_versions_have_no_rates_of_f32() -> None:
    """A data file of before is read, and its f32 products are bf16's by the ratio of peaks."""
    values = load_gpu("h100").to_dict()
    del values["gemm_f32"]
    assert GpuProfile.from_dict(values).gemm_f32 is None
    assert GpuProfile.from_dict(load_gpu("h100").to_dict()) == load_gpu("h100")
    assert GpuProfile.from_dict(load_gpu("b200").to_dict()).gemm_f32 is None
