"""No operator is faster than its tensors can be moved, nor much slower without a reason."""

from __future__ import annotations

import json

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

from sim_server.gpu import load_gpu

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def run(phantora: Phantora) -> Run:
    gpu = load_gpu("h100")
    rate = gpu.memory["bandwidth_bytes_per_s"] / 1e9
    run = phantora.run(
        ["--ranks", "1", "--cluster", "h100"], [PROGRAMS / "operator_times.py", str(rate)]
    )
    assert run.exit_code == 0, run.errors
    return run


def test_what_pytorch_compiles_at_run_time(run: Run) -> None:
    """The names of these kernels have no types. Some functions are bound by arithmetic."""
    shares = json.loads(run.output)["compiled"]
    assert min(shares.values()) > 0.95
    more = {"digamma": 3.4, "digamma of integers": 3.4, "zeta": 20}
    # Columns, whose blocks share their results.
    assert {name for name, share in shares.items() if share > more.get(name, 1.7)} == set()


def test_what_moves_elements(run: Run) -> None:
    """Gradients are filled with zeros before some are added, sorting takes six passes, one block
    looks for the one smallest of all, one sorts a row for its mode, and `arange` and `linspace`
    have a block for 64 elements. Pooling and resizing of channels last, and averages' gradients,
    divide for each element; atomics add those of adaptive averages.
    """
    shares = json.loads(run.output)["moving"]
    assert min(shares.values()) > 0.95
    more = {"sort of rows": 25.0, "kthvalue of all": 2900.0, "bincount": 6.0, "histc": 4.0}
    more |= {"mode": 160.0, "adaptive_avg_pool2d, gradient": 13.5}
    more |= {"arange": 4.2, "linspace": 8.4}
    more |= {"nearest, channels last": 4.6, "bilinear, channels last": 6.6}
    more |= {"avg_pool2d, channels last": 4.6, "avg_pool2d, gradient": 13.0}
    more |= {"max_pool2d, channels last, gradient": 7.0}
    assert {name for name, share in shares.items() if share > more.get(name, 3.6)} == set()
