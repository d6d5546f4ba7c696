"""Reads of values that nobody computed, from the program to the report and --strict."""

from __future__ import annotations

import pytest
from phantora_runs import PROGRAMS, Phantora

pytestmark = pytest.mark.torch

PROGRAM = PROGRAMS / "unknown_reads.py"
LINES = PROGRAM.read_text(encoding="utf-8").splitlines()
EVERYWHERE, ON_ONE_RANK = (
    f"{PROGRAM}:{next(number for number, line in enumerate(LINES, 1) if words in line)}"
    for words in ("# on every rank", "# on one rank")
)


def test_counts_that_differ(phantora: Phantora) -> None:
    """Of each line, per rank; where ranks or iterations differ, control flow may have split."""
    run = phantora.run(["--ranks", "2"], [PROGRAM])
    assert run.exit_code == 0, run.errors
    rows = {row["place"]: row for row in run.summary["trust"]["unknown_reads"]}
    even, uneven = rows[EVERYWHERE], rows[ON_ONE_RANK]
    assert even["per_rank"] == [8, 8]
    assert not even["differs_between_ranks"]
    assert not even["differs_between_iterations"]
    assert uneven["per_rank"] == [0, 4]
    assert uneven["differs_between_ranks"]
    assert uneven["differs_between_iterations"]


@pytest.mark.parametrize("accepted", [(), (EVERYWHERE,), (EVERYWHERE, ON_ONE_RANK)])
def test_strict(phantora: Phantora, accepted: tuple[str, ...]) -> None:
    """It fails on each line that is not accepted, and names the option that accepts it."""
    options = ["--ranks", "2", "--strict", *(f"--accept-unknown={place}" for place in accepted)]
    run = phantora.run(options, [PROGRAM])
    told = " ".join(run.errors.split())
    for place in (EVERYWHERE, ON_ONE_RANK):
        assert (f"add --accept-unknown {place}" in told) == (place not in accepted), told
    if len(accepted) < 2:
        assert run.exit_code == 6
        assert "control flow may have split" in told


def test_results_of_unknown_size_forget_nothing_else(phantora: Phantora) -> None:
    """A search for the places of unknown scores leaves other tensors as they were."""
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "counted_results.py"])
    assert run.exit_code == 0, run.errors
    assert run.output.split() == ["lost", "0"]
    # The sizes of the results are all that was read of what nobody knows; `bincount` asks twice.
    assert sum(sum(row["per_rank"]) for row in run.summary["trust"]["unknown_reads"]) == 7 * 8


def test_values_that_nobody_knows_are_at_least_one(phantora: Phantora) -> None:
    """Where different ones are counted: also by PyTorch, which splits batches of matrices so."""
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "different_values.py"])
    assert run.exit_code == 0, run.errors
    assert run.output.splitlines() == [
        "1 True [64]",
        "(1, 8) [8]",
        "1 1",
        "(2, 8, 8)",
        "[1, 3] []",
    ]
    lines = {row["site"].rpartition(":")[2] for row in run.summary["trust"]["unknown_reads"]}
    assert lines >= {"6 <module>", "8 <module>", "10 <module>", "11 <module>"}


def test_what_moves_in_large_tensors_stays_known(phantora: Phantora) -> None:
    """Numbers whose order changes, and flags made of numbers, so that programs go on by them."""
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "moved_values.py"])
    assert run.exit_code == 0, run.errors
    told = dict(line.split(": ") for line in run.output.splitlines())
    names = ("windows", "transposed", "between", "places", "flags", "pairs")
    assert told == dict.fromkeys(names, "True")
    assert run.summary["trust"]["unknown_reads"] == []


def test_what_triton_only_reads_stays_known(phantora: Phantora) -> None:
    """Of a kernel of the program and of one of Inductor; what a kernel writes is unknown."""
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "read_by_triton.py"])
    assert run.exit_code == 0, run.errors
    assert run.output.splitlines() == ["[3, 1, 4, 1] 2", "[3, 1, 4, 1]"]
    lines = [row["site"].rpartition(":")[2] for row in run.summary["trust"]["unknown_reads"]]
    assert lines == ["23 <module>", "24 <module>"]


def test_a_scale_of_losses_stays_known(phantora: Phantora) -> None:
    """Kernels with strides get structures that are not all set, with addresses of earlier calls."""
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "loss_scale.py"])
    assert run.exit_code == 0, run.errors
    scales = {line.rpartition(" ")[2] for line in run.output.splitlines()}
    assert scales == {"65536.0"}, run.output
    assert run.summary["trust"]["unknown_reads"] == []


@pytest.mark.parametrize(
    ("words", "reads"), [("stale", 0), ("interface", 1), ("capsule", 1), ("storage", 1)]
)
def test_stale_words_are_no_pinned_memory(phantora: Phantora, words: str, reads: int) -> None:
    """What PyTorch never set in a structure is no address; that of a tensor of the device is."""
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "stale_words.py", words])
    assert run.exit_code == 0, run.errors
    assert run.summary["trust"]["synthetic_reads"] == reads


def test_gpus_may_be_the_default(phantora: Phantora) -> None:
    """Where our own code makes tensors on the host."""
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "default_type.py"])
    assert run.exit_code == 0, run.errors
    assert run.output.splitlines() == ["cuda:0 3 8"]
