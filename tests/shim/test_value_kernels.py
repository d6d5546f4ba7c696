"""Recognised kernels of the installed PyTorch give what PyTorch gives on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from rank_runs import RankRun

from sim_server.gpu import load_gpu


@pytest.mark.torch
def test_small_operations_match_the_cpu(tmp_path: Path) -> None:
    """Every operation and type: equal bits, and nothing had to be made up."""
    run = RankRun("kernels_rank.py", "all", tmp_path, settings=load_gpu("h100").shim_keys())
    (result,) = run.results
    assert result["wrong"] == {}
    assert result["cases"] > 300
    assert run.synthetic_bytes() == []
