"""Runs that fail end quickly, with their exit code and one message, and leave nothing behind.

The fixture checks the last: processes and run directories, in which the sockets lie.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from phantora_runs import PROGRAMS, Phantora

from phantora_py.data import RunData

pytestmark = pytest.mark.torch

PROGRAM = PROGRAMS / "failing.py"
# Start-up and import of torch take most of it; alone on a machine it is a few seconds.
QUICK_S = 60.0


def line_of(text: str) -> int:
    """Where the program does it."""
    lines = PROGRAM.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


CASES = {
    "raise": (4, "phantora: a rank failed: Rank 1 ended with exit code 1. "),
    "exit": (4, "phantora: a rank failed: Rank 1 ended with exit code 7. "),
    "kill": (4, "phantora: a rank failed: Rank 1 was killed by signal 9 (SIGKILL). "),
    "unsupported": (
        3,
        "phantora: unsupported call: rank 1 called cudaImportExternalMemory of cudart, which is "
        f"not modelled, at {PROGRAM}:{line_of('cudaImportExternalMemory')} fail. ",
    ),
    "leave": (5, "phantora: collectives: deadlock: ranks 0 wait and nobody can end their waiting."),
}


@pytest.mark.parametrize("case", CASES)
def test_a_rank_that_fails(failing_phantora: Phantora, case: str) -> None:
    """One message of ours, which names the rank; the data file has it too."""
    exit_code, message = CASES[case]
    run = failing_phantora.run(["--ranks", "2"], [PROGRAM, case])
    ours = [line for line in run.errors.splitlines() if line.startswith("phantora: ")]
    assert run.exit_code == exit_code, run.errors
    assert len(ours) == 1, run.errors
    assert ours[0].startswith(message)
    assert run.wall_s < QUICK_S
    assert run.data.run["exit_code"] == exit_code
    assert run.data.run["message"] in run.errors
    assert (case == "raise") == ("ValueError: a bad batch" in run.errors)


def test_a_deadlock_names_the_operation_and_the_line(failing_phantora: Phantora) -> None:
    """Who arrived at which line, and who is missing."""
    run = failing_phantora.run(["--ranks", "2"], [PROGRAM, "leave"])
    line = line_of("dist.all_reduce(gradients)")
    assert "all_reduce number 4 of 1048576 elements: rank 0 (" in run.errors
    assert f"{PROGRAM}:{line} main) arrived; missing: 1" in run.errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(failing_phantora: Phantora, tmp_path: Path, number: signal.Signals) -> None:
    """Exit code 130 within seconds, whatever the ranks are at; the data until then is kept."""
    process, path = failing_phantora.start(["--ranks", "2"], [PROGRAM, "never"])
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "under way\n"
        os.kill(process.pid, number)
        assert process.wait(QUICK_S) == 130
        assert process.stderr.read() == (
            "phantora: interrupted: every rank was stopped; the data file ends there.\n"
        )
    data = RunData(path)
    assert data.run["exit_code"] == 130
    assert len(data.operations) >= 3
    left = {path.name, "run-directory-0", "run-directory-1"}
    assert {file.name for file in tmp_path.iterdir()} == left
