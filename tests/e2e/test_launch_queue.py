"""A host is ahead of its GPU by no more than a stream's queue of launches."""

from __future__ import annotations

import json

import pytest
from phantora_runs import PROGRAMS, Phantora

pytestmark = pytest.mark.torch

QUEUED = 1024
"""Launches that a stream's queue holds."""
CHECKED = 256
"""It is looked at once in so many."""


def test_launches_wait_for_room(phantora: Phantora) -> None:
    """Those that fit do not wait, on any stream; of more, what is left when the last is launched
    fits; a graph takes one place however many kernels it has.
    """
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "launch_queue.py"])
    assert run.exit_code == 0, run.errors
    said = json.loads(run.output)
    whole_s = {name: sum(parts.values()) for name, parts in said.items()}
    kernel_s = whole_s["many"] / 3000
    assert said["few"]["launching"] < whole_s["few"] / 4
    assert said["few on both"]["launching"] < whole_s["few on both"] / 4
    left = said["many"]["waiting"] / kernel_s
    assert QUEUED - CHECKED <= left <= QUEUED
    assert said["graph"]["launching"] < kernel_s
    assert whole_s["graph"] == pytest.approx(4 * 1500 * kernel_s, rel=0.01)
