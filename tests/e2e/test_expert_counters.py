"""Counting tokens per expert costs what it costs, in whichever way a program does it."""

from __future__ import annotations

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

pytestmark = pytest.mark.torch
WAYS = ("bincount", "scatter_add", "one_hot", "histc", "unique", "compare")


def test_ways_to_count_tokens_take_the_same_time(phantora: Phantora) -> None:
    """Each reads the true counts, so that the experts' work is the same: within 1 %."""
    runs = {way: count_tokens(phantora, way) for way in WAYS}
    even = [16384 * 2 // 8] * 8
    for way, run in runs.items():
        assert run.output.count(f"sizes {even}") == 3, (way, run.output)
    times = {way: run.summary["iterations"]["median_ns"] for way, run in runs.items()}
    least, most = min(times.values()), max(times.values())
    assert most <= 1.01 * least, times


def count_tokens(phantora: Phantora, way: str) -> Run:
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "expert_counters.py", way])
    assert run.exit_code == 0, run.errors
    return run
