"""The programs of the accuracy suite do what the published ones did, as far as one can count it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from phantora_runs import Phantora, Run

from phantora_py.report.iterations import find_iterations

pytestmark = pytest.mark.torch

SUITE = Path(__file__).parents[2] / "benchmarks" / "accuracy"
MICRO_BATCHES = 2
# Embedding, positions, two blocks, the last norm; of them the embedding is used twice on the way
# forward and once on the way back.
UNITS, GATHERS = 5, 5 + 5 + 1
BLOCKS = 2


def last_iteration(run: Run) -> Counter[str]:
    """Operations of more than one rank between the last two optimizer steps, by kind."""
    assert run.exit_code == 0, run.errors
    begin_ns, end_ns = find_iterations(run.data).boundaries_ns[-2:]
    return Counter(
        one["kind"]
        for one in run.data.operations
        if begin_ns < one["moves_ns"] <= end_ns and len(one["members"]) > 1
    )


def test_mpt(phantora: Phantora) -> None:
    """Every micro-batch reduces the gradients of every unit, and gathers it for either pass."""
    options = ["--model", "tiny", "--batch", "1", "--sequence", "512", "--checkpoint"]
    options += ["--accumulate", str(MICRO_BATCHES)]
    found = last_iteration(phantora.run(["--ranks", "2"], [SUITE / "train_mpt.py", *options]))
    assert found["reduce_scatter"] == MICRO_BATCHES * UNITS
    assert found["all_gather"] == MICRO_BATCHES * GATHERS
    assert found["all_reduce"] == 2  # the norm of the gradients; the loss


def test_nanotron(phantora: Phantora) -> None:
    """Tensor-parallel layers gather and scatter as theirs do, and every tensor that goes to another
    stage is announced twice.
    """
    options = ["--model", "tiny", "--sequence", "512", "--accumulate", str(MICRO_BATCHES)]
    options += ["--tp", "2", "--pp", "2"]
    found = last_iteration(phantora.run(["--ranks", "4"], [SUITE / "train_nanotron.py", *options]))
    # Of a layer: four products, whose inputs or gradients are gathered, two of them again.
    layers, head, embedding = 4, 1, 1
    assert found["all_gather"] == MICRO_BATCHES * (layers * (2 + 2 + 2) + 2 * head + embedding)
    assert found["reduce_scatter"] == MICRO_BATCHES * (layers * (2 + 2) + head + embedding)
    assert found["send"] == MICRO_BATCHES * 2 * 3 * (2 + 1)  # activations and mask; gradients


@pytest.mark.parametrize(("zero", "reduced", "gathered"), [(0, 4 * 6 + 2, 0), (1, 1, 1)])
def test_nanotron_data_parallel(phantora: Phantora, zero: int, reduced: int, gathered: int) -> None:
    """Without ZeRO each parameter's gradient is reduced on its own (four layers have six each,
    embedding and last norm one); with it all are at once, and the shares are gathered.
    """
    options = ["--model", "tiny", "--sequence", "512", "--accumulate", str(MICRO_BATCHES)]
    options += ["--dp", "2", "--zero", str(zero)]
    found = last_iteration(phantora.run(["--ranks", "2"], [SUITE / "train_nanotron.py", *options]))
    assert found["all_reduce"] == reduced + 2  # the loss; the barrier at the end of a step
    assert found["all_gather"] == gathered
