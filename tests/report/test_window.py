"""The part of a run that tables are made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from engine_harness import Program
from played_files import played_run

from phantora_py.report.iterations import Iterations
from phantora_py.report.window import last_iteration


@pytest.mark.parametrize(
    ("boundaries_ns", "expected_ns"),
    [
        ([0, 100, 200, 305], (200, 305)),
        ([0, 100, 200, 240], (100, 200)),
        ([0, 100, 300], (100, 300)),
    ],
)
def test_the_last_iteration_stands_for_the_others(
    tmp_path: Path, boundaries_ns: list[int], expected_ns: tuple[int, int]
) -> None:
    """An epoch's last batch, which is smaller, does not; of two that differ none is more usual."""
    data = played_run(tmp_path / "a.phr", [Program().kernel(100)])
    iterations = Iterations("optimizer", np.array(boundaries_ns))
    assert last_iteration(data, iterations).borders_ns == expected_ns
