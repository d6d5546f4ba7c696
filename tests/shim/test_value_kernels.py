"""Recognised kernels of the installed PyTorch give what PyTorch gives on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from rank_runs import RankRun

from sim_server.gpu import load_gpu

SETTINGS = load_gpu("h100").shim_keys()


@pytest.mark.torch
def test_small_operations_match_the_cpu(tmp_path: Path) -> None:
    """Every operation and type: equal bits, and nothing had to be made up."""
    run = RankRun("kernels_rank.py", "compare", tmp_path, settings=SETTINGS)
    (result,) = run.results
    assert result["wrong"] == {}
    assert result["cases"] > 300
    assert run.synthetic_bytes() == []


@pytest.mark.torch
def test_kernels_on_lists_forget_what_they_change(tmp_path: Path) -> None:
    """Known values of tensors in a list are not read back as true after it; others are kept."""
    run = RankRun("kernels_rank.py", "change_lists", tmp_path, settings=SETTINGS)
    (result,) = run.results
    assert result == {
        "untouched": [7.0] * 4,
        "first": [0.0] * 4,
        "last": [0.0] * 8,
        "other": [0.0] * 8,
    }
    assert run.synthetic_bytes() == [4 * 4, 4 * 8, 4 * 8]
