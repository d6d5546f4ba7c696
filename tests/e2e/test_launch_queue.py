"""A host is ahead of its GPU by no more than a stream's queue of launches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

from phantora_py.cli import main
from phantora_py.data import RunData
from sim_server.log.history import HOST_WAIT_SPAN
from sim_server.records import WaitKind

pytestmark = pytest.mark.torch

QUEUED = 1024
"""Launches that a stream's queue holds."""
CHECKED = 256
"""It is looked at once in so many."""


@pytest.fixture(scope="module")
def run(phantora: Phantora) -> Run:
    return phantora.run(["--ranks", "1"], [PROGRAMS / "launch_queue.py"])


def held_up_ns(data: RunData) -> int:
    """How long launches waited for room."""
    spans = data.spans
    waits = spans[(spans["kind"] == HOST_WAIT_SPAN) & (spans["id"] == WaitKind.LAUNCH_QUEUE)]
    return int((waits["end_ns"] - waits["start_ns"]).sum())


def test_launches_wait_for_room(run: Run) -> None:
    """Those that fit do not wait, on any stream; of more, what is left when the last is launched
    fits; a graph takes one place however many kernels it has.
    """
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


def test_a_recorded_run_waits_for_slower_kernels(run: Run, tmp_path: Path) -> None:
    """Twice as long for kernels that take twice as long, but for the time to launch them."""
    output = tmp_path / "slower.phr"
    scale = ["--scale-kernel", "elementwise=2"]
    assert main(["resimulate", str(run.path), "-o", str(output), "--quiet", *scale]) == 0
    assert held_up_ns(RunData(output)) == pytest.approx(2 * held_up_ns(run.data), rel=0.05)
