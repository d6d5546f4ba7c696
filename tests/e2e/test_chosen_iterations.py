"""`phantora run --iteration`: against the time that the script prints, and what there is not."""

from __future__ import annotations

import re

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

pytestmark = pytest.mark.torch

PROGRAM = PROGRAMS / "chosen_iterations.py"


def chosen(phantora: Phantora, loop: str, choice: str) -> Run:
    return phantora.run(["--ranks", "1", "--iteration", choice], [PROGRAM, loop])


@pytest.mark.parametrize(
    ("loop", "choice", "share"),
    [
        ("accumulated", "optimizer:0", 1),
        ("adversaries", "optimizer:1", 1),
        ("ranges", "nvtx:outer", 1),
        ("ranges", "nvtx:inner", 1),
        ("calls", "call:chosen_work:two_steps", 1),
        ("calls", "call:chosen_work:Trainer.both", 1),
        ("calls", "call:chosen_work:Trainer.made", 1),
        ("calls", "call:chosen_work:Trainer.step", 5),
        ("profiled", "profiler", 1),
    ],
)
def test_the_time_that_the_script_prints(
    phantora: Phantora, loop: str, choice: str, share: int
) -> None:
    """`share`: how many iterations of the choice one of the script's has."""
    run = chosen(phantora, loop, choice)
    assert run.exit_code == 0, run.errors
    (printed_s,) = map(float, re.findall(r"iteration ([0-9.]+) s", run.output))
    iterations = run.summary["iterations"]
    assert iterations["detected_by"] == choice.partition(":")[0]
    assert iterations["median_ns"] * share == pytest.approx(printed_s * 1e9, rel=0.01)
    assert iterations["count"] == pytest.approx(10 * share, abs=1)


@pytest.mark.parametrize(
    ("loop", "choice", "words"),
    [
        ("accumulated", "optimizer:1", "no such optimizer has stepped; by number, these have: 0 ("),
        ("ranges", "nvtx:iner", "no NVTX range of this name has ended; these have: inner, outer"),
        ("accumulated", "profiler", "there was no step of torch.profiler"),
        ("calls", "call:chosen_work:one_step", "has no function one_step"),
        ("calls", "call:chosen_wrok:two_steps", "it never returned: the program did not import"),
        ("calls", "call:chosen_iterations:main", "the program's own file cannot be watched"),
    ],
)
def test_what_there_is_not(phantora: Phantora, loop: str, choice: str, words: str) -> None:
    """The run ends with what there is in place of it; its data are there, with what repeats."""
    run = chosen(phantora, loop, choice)
    assert run.exit_code == 2
    told = " ".join(run.errors.split())
    assert words in told
    assert f"--iteration {choice}: " in told
    assert run.summary["iterations"]["detected_by"] in ("optimizer", "clock")
