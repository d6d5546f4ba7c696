"""The headline is what the program calls an iteration: what it prints by its own clock."""

from __future__ import annotations

import importlib.util
import re
import statistics

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

pytestmark = pytest.mark.torch
TWO_RANKS = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]


def printed_ns(run: Run) -> float:
    """The middle one of those after the first, or the only one."""
    lasted_s = [float(one) for one in re.findall(r"iteration ([0-9.]+) s", run.output)]
    return 1e9 * statistics.median(lasted_s[1:] or lasted_s)


def loop(phantora: Phantora, kind: str, *options: str) -> Run:
    """A run whose headline is the script's."""
    run = phantora.run(options, [*TWO_RANKS, PROGRAMS / "loops.py", kind])
    assert run.exit_code == 0, run.errors
    return run


def agrees(run: Run, *, prints_mean: bool = False) -> bool:
    """`prints_mean`: of all iterations, of which DDP makes the first ten longer (it times them)."""
    iterations = run.summary["iterations"]
    mean_ns = statistics.mean(iterations["per_iteration_ns"])
    found_ns = mean_ns if prints_mean else iterations["median_ns"]
    return bool(found_ns == pytest.approx(printed_ns(run), rel=0.01))


@pytest.mark.parametrize(
    ("kind", "found_by", "holds"),
    [
        ("plain", "optimizer", "1 optimizer step"),
        ("accumulating", "optimizer", "1 optimizer step, 4 micro-batches"),
        ("gan", "optimizer", "3 optimizer steps"),
        ("muon", "optimizer", "2 optimizer steps"),
        ("sharded", "optimizer", "1 optimizer step"),
        ("inference", "clock", ""),
        ("inference+whole", "launches", ""),
        ("forward_backward", "clock", "1 micro-batch"),
        ("forward_backward+whole", "backward", "1 micro-batch"),
        ("own_descent", "clock", "1 micro-batch"),
        ("own_descent+log", "backward", "1 micro-batch"),
        ("own_accumulation", "clock", "4 micro-batches"),
        ("pipeline", "optimizer", "1 optimizer step, 4 micro-batches"),
        ("policy", "optimizer", "3 optimizer steps"),
    ],
)
def test_headline_is_what_the_script_prints(
    phantora: Phantora, kind: str, found_by: str, holds: str
) -> None:
    """Within 1 %, and said in words; the script's own clock agrees."""
    run = loop(phantora, kind)
    iterations = run.summary["iterations"]
    assert (iterations["detected_by"], iterations["holds"]) == (found_by, holds)
    is_whole = kind.endswith("whole")
    assert agrees(run, prints_mean=is_whole), (iterations, printed_ns(run))
    clock = iterations["script_clock"]
    assert (clock is None) == is_whole
    assert clock is None or abs(clock["difference"]) < 0.01, clock


@pytest.mark.frameworks
@pytest.mark.parametrize(
    ("framework", "program", "words", "holds"),
    [
        *(
            ("deepspeed", "loops_deepspeed.py", f"{stage} {accumulation}", holds)
            for stage in (1, 2, 3)
            for accumulation, holds in (
                (1, "1 optimizer step"),
                (16, "1 optimizer step, 16 micro-batches"),
            )
        ),
        ("lightning", "loops_lightning.py", "two_optimizers", "2 optimizer steps"),
        (
            *("lightning", "loops_lightning.py", "accumulating"),
            "1 optimizer step, 2 micro-batches",
        ),
        ("transformers", "loops_hf_trainer.py", "", "1 optimizer step, 4 micro-batches"),
    ],
)
def test_headline_of_frameworks(
    phantora: Phantora, framework: str, program: str, words: str, holds: str
) -> None:
    """Within 1 % of what a clock in the user's own code says."""
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed: nox -s frameworks")
    run = phantora.run([], [*TWO_RANKS, PROGRAMS / program, *words.split()])
    assert run.exit_code == 0, run.errors
    iterations = run.summary["iterations"]
    assert (iterations["detected_by"], iterations["holds"]) == ("optimizer", holds)
    assert agrees(run), (iterations, printed_ns(run))
    assert abs(iterations["script_clock"]["difference"]) < 0.01, iterations["script_clock"]
