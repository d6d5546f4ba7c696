"""MFU, HFU, tokens and samples of programs whose products are counted by hand and by PyTorch."""

from __future__ import annotations

import re
from typing import Any

import pytest
from phantora_runs import PROGRAMS, Phantora

PROGRAM = PROGRAMS / "throughput.py"
# As in the program. Forward and backward: one product, then two of the same size.
LAYERS, WIDTH, VOCABULARY, LENGTH, BATCH, MICRO_BATCHES = 2, 256, 512, 128, 4, 2
TOKENS = BATCH * LENGTH * MICRO_BATCHES
BLOCK = 2 * TOKENS * WIDTH * (3 + 4 + 4) * WIDTH
SCORES = BATCH * MICRO_BATCHES * LENGTH * LENGTH * WIDTH  # of all heads, times their depth
FORWARD = LAYERS * (BLOCK + 2 * 2 * SCORES)
HEAD = 2 * TOKENS * WIDTH * VOCABULARY
MODEL = 3 * LAYERS * BLOCK + LAYERS * (2 + 5) * 2 * SCORES + 3 * HEAD
# A checkpoint without reentrance stops before what nobody asked for: the last product of a block.
STOPPED = FORWARD - LAYERS * 2 * TOKENS * 4 * WIDTH * WIDTH
IMAGES = BATCH * MICRO_BATCHES
FIRST, SECOND = 2 * 32 * 32 * 16 * 27, 2 * 16 * 16 * 16 * 16 * 9
CLASSIFIER = 2 * 16 * 8
# The images themselves have no gradient.
OF_IMAGES = IMAGES * (2 * FIRST + 3 * SECOND + 3 * CLASSIFIER)
PEAK = 989.4e12


def run(phantora: Phantora, ranks: int, *kinds: str) -> tuple[dict[str, Any], str, float]:
    """Its throughput, what it printed, and how long an iteration takes, in seconds."""
    ended = phantora.run(["--ranks", str(ranks)], [PROGRAM, *kinds])
    assert ended.exit_code == 0, ended.errors
    median_s = ended.summary["iterations"]["median_ns"] / 1e9
    return ended.summary["throughput"], ended.output, median_s


@pytest.mark.parametrize(
    ("kinds", "model", "executed"),
    [
        (("count",), MODEL, MODEL),
        (("count", "checkpoint"), MODEL, MODEL + STOPPED),
        (("reentrant",), MODEL, MODEL + FORWARD),
        (("count", "images", "loader"), OF_IMAGES, OF_IMAGES),
    ],
)
def test_products_are_those_of_pytorch_s_counter(
    phantora: Phantora, kinds: tuple[str, ...], model: int, executed: int
) -> None:
    """And those by hand; what is computed again is work of the GPU alone."""
    found, printed, median_s = run(phantora, 1, *kinds)
    shares = found["utilization"]
    assert (shares["model_flops"], shares["executed_flops"]) == (model, executed)
    if "count" in kinds:
        assert re.findall(r"counted (\d+)", printed) == [str(executed)]
    assert shares["mfu"] == pytest.approx(model / PEAK / median_s)
    assert shares["hfu"] == pytest.approx(executed / PEAK / median_s)
    assert (shares["type"], shares["hidden_share"]) == ("bf16", 0)


@pytest.mark.parametrize(
    ("ranks", "kinds", "groups"),
    [
        (1, ("loader",), 1),
        (2, ("ddp", "loader"), 2),
        (2, ("fsdp", "checkpoint"), 2),
        (4, ("tp",), 2),
    ],
)
def test_tokens_and_samples_are_those_of_ranks_with_different_data(
    phantora: Phantora, ranks: int, kinds: tuple[str, ...], groups: int
) -> None:
    """Tensor-parallel ranks have the same data; all others add up."""
    found, _, median_s = run(phantora, ranks, *kinds)
    assert found["tokens"]["per_iteration"] == groups * TOKENS
    assert found["tokens"]["per_s"] == pytest.approx(groups * TOKENS / median_s)
    assert found["samples"]["per_iteration"] == groups * BATCH * MICRO_BATCHES
    assert len(found["tokens"]["ranks"]) == groups
    assert found["tokens"]["is_whole"]
    assert found["samples"]["found_by"] == ("loader" if "loader" in kinds else "embedding")


@pytest.mark.parametrize("kinds", [(), ("loader",), ("compile",)])
def test_batches_without_gradients_are_none_of_a_training(
    phantora: Phantora, kinds: tuple[str, ...]
) -> None:
    """Evaluation within an iteration, and the model that another one is compared with."""
    found, _, _ = run(phantora, 1, "evaluate", *kinds)
    assert found["tokens"]["per_iteration"] == TOKENS
    assert found["samples"]["per_iteration"] == BATCH * MICRO_BATCHES


def test_rows_that_may_be_places_of_a_sequence_are_no_samples(phantora: Phantora) -> None:
    """A recurrent layer takes sequences first, unless it is told that batches come first."""
    found, _, _ = run(phantora, 1, "sequence_first")
    assert found["tokens"]["per_iteration"] == TOKENS
    assert found["samples"] is None
    assert found["tokens"]["is_whole"]


@pytest.mark.parametrize(
    ("kinds", "found_by"), [(("images", "loader"), "loader"), (("images",), "convolution")]
)
def test_images_have_samples_and_no_tokens(
    phantora: Phantora, kinds: tuple[str, ...], found_by: str
) -> None:
    """A data loader tells how many, or the first layer that looks at them."""
    found, _, _ = run(phantora, 1, *kinds)
    assert found["samples"]["per_iteration"] == IMAGES
    assert found["samples"]["found_by"] == found_by
    assert found["tokens"] is None


def test_ranks_without_a_wrapper_do_not_add_up(phantora: Phantora) -> None:
    """Whether they have the same data is not known."""
    found, _, _ = run(phantora, 2)
    assert (found["tokens"]["per_iteration"], found["tokens"]["is_whole"]) == (TOKENS, False)
    assert found["utilization"]["executed_flops"] == 2 * MODEL


@pytest.mark.parametrize("checkpoint", [(), ("checkpoint",)])
def test_compiled_models_have_tokens(phantora: Phantora, checkpoint: tuple[str, ...]) -> None:
    """What a graph computes again cannot be told from the rest, so there is no MFU then."""
    found, _, _ = run(phantora, 1, "compile", *checkpoint)
    assert found["tokens"]["per_iteration"] == TOKENS
    assert found["tokens"]["found_by"] == "graph"
    shares = found["utilization"]
    assert shares["executed_flops"] == MODEL + (STOPPED if checkpoint else 0)
    assert shares["model_flops"] == (None if checkpoint else MODEL)
