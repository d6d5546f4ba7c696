"""benchmarks/pytorch_suites.py: what became of a test, from what its run said."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

SUITES: dict[str, Any] = runpy.run_path(
    str(Path(__file__).parents[2] / "benchmarks" / "pytorch_suites.py")
)

STARTER = "E   RuntimeError: Process 0 exited with error code 10 and exception:\n"
COMPARED = "E   AssertionError: Scalars are not close!\n"
RANK = "[rank1]:E1129 04:28:54.320000 1009 torch/testing.py:1124] "


@pytest.mark.parametrize(
    ("output", "error"),
    [
        (STARTER + COMPARED, "AssertionError: Scalars are not close!"),
        (STARTER + RANK + "torch.AcceleratorError: CUDA error", "torch.AcceleratorError: CUDA err"),
        (COMPARED + "phantora: unsupported call: rank 0 called f", "phantora: unsupported call"),
        (STARTER, "RuntimeError: Process 0"),
        ("    except ValueError:\n1 failed", ""),
    ],
)
def test_first_error(output: str, error: str) -> None:
    """That of the test, and not what the process that started its processes makes of it."""
    found = SUITES["first_error"](output)
    assert found.startswith(error)
    assert bool(found) == bool(error)


@pytest.mark.parametrize(
    ("why", "sites", "outcome"),
    [
        ("AssertionError: Scalars are not close!", ["x.py:3"], "values"),
        ("AssertionError: Scalars are not close!", [], "failed"),
        ("RuntimeError: CUDA error: invalid argument", ["x.py:3"], "failed"),
    ],
)
def test_only_comparisons_may_be_the_values(why: str, sites: list[str], outcome: str) -> None:
    """Any other error beside an unknown read hid behind it."""
    assert SUITES["judge"](why, sites)[0] == outcome
