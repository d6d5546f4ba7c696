"""Operators of libraries beside PyTorch's: lengths and offsets that a program reads back."""

from __future__ import annotations

import pytest
from phantora_runs import PROGRAMS, Phantora

pytestmark = pytest.mark.torch


def test_values_that_a_library_computes(phantora: Phantora) -> None:
    """An operator of FBGEMM's namespace has the values that its CPU kernel finds; one on weights
    is left alone, and its values are counted as unknown.
    """
    run = phantora.run([], [PROGRAMS / "library_operators.py"])
    assert run.exit_code == 0, run.errors
    assert "lengths [6, 0, 10]" in run.output
    assert "of the CPU [6, 0, 10]" in run.output
    reads = run.summary["trust"]["unknown_reads"]
    assert [one["count"] for one in reads] == [1], reads
