"""What PyTorch's watchdogs find out is no luck."""

from __future__ import annotations

import pytest
from phantora_runs import PROGRAMS, Phantora

pytestmark = pytest.mark.torch


def test_first_buckets_are_given_back(phantora: Phantora, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before DDP makes others, whether or not a watchdog has had the time to look."""
    monkeypatch.setenv("TORCH_DIST_USE_NCCL2", "0")  # the default of 2.15 holds no tensors
    runs = [
        phantora.run(["--ranks", "1"], [PROGRAMS / "first_buckets.py", milliseconds])
        for milliseconds in ("0", "500")
    ]
    assert [run.exit_code for run in runs] == [0, 0], runs[0].errors
    assert runs[0].summary["digest"] == runs[1].summary["digest"]
    # Parameters, gradients, buckets and their sum, of 256 MiB each.
    assert int(runs[0].output) < 4.5 * (256 << 20)
