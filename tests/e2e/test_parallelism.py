"""FSDP1 and pipelines: what the ranks of small programs send each other follows from the shape."""

from __future__ import annotations

from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

from phantora_py.report.iterations import find_iterations
from sim_server.records import CopyKind

pytestmark = pytest.mark.torch

COPY_SPAN = 2
WIDTH, LAYERS, MICRO_BATCHES, SINGLE = 256, 3, 8, 4
LAYER_BYTES = SINGLE * (WIDTH**2 + WIDTH)

# By kind, bytes and members, how often in an iteration.
Traffic = Counter[tuple[str, int, tuple[int, ...]]]


def last_iteration(run: Run) -> Traffic:
    """What moved between the last two optimizer steps."""
    assert run.exit_code == 0, run.errors
    begin_ns, end_ns = find_iterations(run.data).boundaries_ns[-2:]
    return Counter(
        (one["kind"], one["bytes"], tuple(one["members"]))
        for one in run.data.operations
        if begin_ns < one["moves_ns"] <= end_ns
    )


def sharded(*groups: tuple[int, ...]) -> Traffic:
    """Layers are gathered for either pass, their gradients scattered; clipping wants a sum."""
    traffic: Traffic = Counter()
    for group in groups:
        traffic["all_gather", LAYER_BYTES, group] = 2 * LAYERS
        traffic["reduce_scatter", LAYER_BYTES, group] = LAYERS
        traffic["all_reduce", SINGLE, group] = 1
    return traffic


@pytest.mark.parametrize("mode", ["full", "hybrid", "offload"])
def test_fsdp1(phantora: Phantora, mode: str) -> None:
    """Full and hybrid shards, and shards that live on the CPU, which cost copies to the device."""
    run = phantora.run(["--ranks", "4"], [PROGRAMS / "fsdp1.py", mode])
    expected = sharded((0, 1, 2, 3))
    if mode == "hybrid":
        expected = sharded((0, 1), (2, 3))
        for replicas in ((0, 2), (1, 3)):
            expected["all_reduce", LAYER_BYTES // 2, replicas] = LAYERS
    assert last_iteration(run) == expected
    place = "cpu" if mode == "offload" else "cuda"
    assert run.output.count(f"parameters on {place}") == 4
    copies = run.data.spans[run.data.spans["kind"] == COPY_SPAN]["id"]
    assert (CopyKind.DEVICE_TO_HOST in copies) == (mode == "offload")


@pytest.mark.parametrize(
    ("schedule", "ranks", "stages"), [("GPipe", 4, 4), ("1F1B", 2, 2), ("Interleaved1F1B", 2, 4)]
)
def test_pipeline(phantora: Phantora, schedule: str, ranks: int, stages: int) -> None:
    """Every micro-batch goes from stage to stage, and its gradient comes back."""
    command: list[str | Path] = [PROGRAMS / "pipelining.py", schedule, str(stages)]
    run = phantora.run(["--ranks", str(ranks)], command)
    if version("torch").startswith("2.9."):
        # Stages begin with an integer of which their neighbours take half (docs/running.md).
        assert run.exit_code == 5, run.errors
        assert "Mismatched operation 0" in run.errors
        return
    expected: Traffic = Counter()
    for stage in range(stages - 1):
        sender, receiver = stage % ranks, (stage + 1) % ranks
        expected["send", SINGLE * WIDTH, (sender, receiver)] += MICRO_BATCHES
        expected["send", SINGLE * WIDTH, (receiver, sender)] += MICRO_BATCHES
    assert last_iteration(run) == expected
    assert f"rank {ranks - 1}: {MICRO_BATCHES} losses" in run.output
