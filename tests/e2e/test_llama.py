"""examples/train_llama.py in its layouts: it communicates what the model's shape asks for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from phantora_runs import EXAMPLES, Phantora, Run

from phantora_py.report.iterations import find_iterations

pytestmark = pytest.mark.torch

LAYERS, WIDTH, HIDDEN, VOCABULARY, SEQUENCE = 2, 256, 704, 1024, 256
SHAPE = [
    *("--layers", str(LAYERS), "--width", str(WIDTH), "--hidden", str(HIDDEN), "--heads", "4"),
    *("--vocabulary", str(VOCABULARY), "--sequence", str(SEQUENCE), "--steps", "3"),
]
# Bytes of a number: parameters and activations, gradients and sums.
HALF, SINGLE = 2, 4
NORM_BYTES = (9 * LAYERS + 3) * SINGLE
"""For gradient clipping: the norm of each parameter."""

# By kind and bytes, how often in an iteration.
Traffic = Counter[tuple[str, int]]


def parameters(tp: int) -> list[int]:
    """What FSDP2 wraps, by the parameters that a rank of a TP group of `tp` has of it: the blocks,
    then the rest.
    """
    block = (4 * WIDTH**2 + 3 * WIDTH * HIDDEN) // tp + 2 * WIDTH
    return [block] * LAYERS + [2 * VOCABULARY * WIDTH // tp + WIDTH]


def sharded(tp: int) -> Traffic:
    """Of one group of ranks that share parameters: blocks are gathered for the forward and for the
    backward pass, the rest once, because it is needed again at once.
    """
    *blocks, rest = parameters(tp)
    traffic: Traffic = Counter()
    for count in (*blocks, *blocks, rest):
        traffic["all_gather", HALF * count] += 1
    for count in (*blocks, rest):
        traffic["reduce_scatter", SINGLE * count] += 1
    traffic["all_reduce", NORM_BYTES] += 1
    return traffic


def replicated(shards: int) -> Traffic:
    """Of one group of replicas: each has a shard of the gradients."""
    traffic: Traffic = Counter()
    for count in parameters(1):
        traffic["all_reduce", SINGLE * count // shards] += 1
    return traffic


def tensor_parallel() -> Traffic:
    """Of one TP group: activations are gathered before the products of each half of a block and
    scattered after, in the forward pass, when computed again (but for the last, which nothing
    needs) and in the backward pass; so are the inputs of the head and the embedding's outputs.
    """
    activation_bytes = HALF * SEQUENCE * WIDTH
    traffic: Traffic = Counter()
    traffic["all_gather", activation_bytes] += LAYERS * (2 + 2 + 2) + 2
    traffic["reduce_scatter", activation_bytes] += LAYERS * (2 + 1 + 2) + 2
    # The weights of the norms, whose inputs are split along the sequence.
    traffic["all_reduce", SINGLE * WIDTH] += 2 * LAYERS + 1
    # The loss over a split vocabulary: largest logit, sum of exponentials, logit of the target.
    traffic["all_reduce", HALF * SEQUENCE] += 1
    traffic["all_reduce", SINGLE * SEQUENCE] += 2
    traffic["all_reduce", NORM_BYTES] += 1
    return traffic


def times(count: int, traffic: Traffic) -> Traffic:
    """`count` groups that do the same."""
    return Counter({key: count * number for key, number in traffic.items()})


LAYOUTS = {
    "TP x FSDP2": (
        ["--tp", "2", "--fsdp", "2"],
        times(2, sharded(tp=2)) + times(2, tensor_parallel()),
    ),
    "HSDP": (["--fsdp", "2"], times(2, sharded(tp=1)) + times(2, replicated(shards=2))),
    "TP": (["--tp", "4"], tensor_parallel()),
}


def last_iteration(run: Run) -> Traffic:
    """What moved between the last two optimizer steps."""
    begin_ns, end_ns = find_iterations(run.data).boundaries_ns[-2:]
    return Counter(
        (one["kind"], one["bytes"])
        for one in run.data.operations
        if begin_ns < one["moves_ns"] <= end_ns
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_traffic(phantora: Phantora, layout: str) -> None:
    """An iteration has the collectives that follow from shape and layout, no more and no less; a
    second run is equal.
    """
    options, expected = LAYOUTS[layout]
    command: list[str | Path] = [EXAMPLES / "train_llama.py", *SHAPE, *options]
    one, other = (phantora.run(["--ranks", "4"], command) for _ in range(2))
    for run in (one, other):
        assert run.exit_code == 0, run.errors
    assert last_iteration(one) == expected
    assert one.summary["trust"]["calls"]["unsupported"] == 0
    assert other.summary["digest"] == one.summary["digest"]
    assert np.array_equal(other.data.spans, one.data.spans)
