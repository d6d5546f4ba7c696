"""Times of a host are found from what steps and pieces of work took on it."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

pytest.importorskip("scipy")
sys.path += [str(Path(__file__).parents[2] / "benchmarks/real_gpu")]

from host_fit import GPUS, Row, driver_ns, fit, left_out, trainings

from phantora_py.calibrate.host_fit import KINDS, predicted_ns

TIMES_NS = {
    **{"frame": 50.0, "instruction": 8.0, "dispatch": 600.0, "backward": 2e5, "node": 9000.0},
    **{"tensor": 900.0, "view": 400.0, "binding": 700.0, "wrap": 1500.0, "rewrap": 150.0},
    **{"call launch": 7000.0, "call library": 5000.0, "call copy": 6000.0, "call event": 2000.0},
    "call sync": 1200.0,
}
PIECES = 0.6
"""Of what steps take."""


def made_row(name: str, part: float, seed: int) -> Row:
    """Of a host that takes exactly these times, or this part of them."""
    draw = random.Random(seed)
    counts = {kind: draw.randrange(1, 200) if kind in TIMES_NS else 0 for kind in KINDS}
    row = Row(name, "h100", 0.0, counts)
    return Row(name, "h100", part * (predicted_ns(TIMES_NS, counts) + driver_ns(row)), counts)


def test_steps_are_told_by_those_that_are_fitted() -> None:
    """And that pieces take less of a host, which has its own factor."""
    steps = [made_row(f"step {number}", 1.0, number) for number in range(40)]
    parts = [made_row(f"piece {number}", PIECES, 100 + number) for number in range(20)]
    _, asked = fit(steps, parts)
    assert asked == pytest.approx(PIECES, rel=0.02)
    ratios = [ratio for _, ratio in left_out(steps, parts)]
    assert len(ratios) == len(steps)
    assert ratios == pytest.approx([1.0] * len(steps), rel=0.1)


def test_steps_whose_device_is_slower_say_nothing() -> None:
    """Of the measured ones those with graphs and of large models are left out."""
    found = list(trainings())
    assert {gpu for _, gpu, _ in found} == set(GPUS)
    names = {name for name, _, _ in found}
    assert "hf bert 32x128" in names
    assert not names & {"gpt2 batch 8 graph", "llama 7b 4 layers 4x2048", "hf mixtral 4x1024"}
