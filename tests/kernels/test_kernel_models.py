"""The models that benchmarks fit are the ones that the simulator computes with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sim_server.gpu import load_gpu, profile_names

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.mark.parametrize("gpu", profile_names())
def test_twins_agree(gpu: str) -> None:
    """Over many shapes at once as one by one, to rounding."""
    from kernel_models import check_twins  # noqa: PLC0415

    check_twins(load_gpu(gpu))


def test_scaling_to_another_gpu() -> None:
    """To itself nothing changes; to one of twice the bandwidth only what memory bounds does."""
    from kernel_accuracy import scaled_rates  # noqa: PLC0415

    h100, h200 = load_gpu("h100"), load_gpu("h200")
    assert scaled_rates(h100.gemm, h100, h100) == h100.gemm
    scaled = scaled_rates(h100.gemm, h100, h200)
    assert scaled.sm_flops_per_ns == h100.gemm.sm_flops_per_ns
    assert scaled.bandwidth_bytes_per_ns == pytest.approx(
        h100.gemm.bandwidth_bytes_per_ns * 4800 / 3352
    )


def test_coverage_is_of_other_folds() -> None:
    """Residuals of a fold are no help for its own intervals: one that differs is not covered."""
    from kernel_accuracy import Held  # noqa: PLC0415

    chance = np.random.default_rng(0)
    folds = np.repeat(np.arange(5), 200)
    predicted_ns = np.full(1000, 100.0)
    regions = np.full(1000, "all")
    alike = Held("alike", predicted_ns, chance.lognormal(4.6, 0.1, 1000), folds, regions)
    assert alike.coverage() == pytest.approx(0.9, abs=0.03)
    measured_ns = np.where(folds == 4, 300.0, alike.measured_ns)
    assert Held("odd", predicted_ns, measured_ns, folds, regions).coverage() < 0.75
