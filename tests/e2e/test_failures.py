"""Runs that fail end quickly, with their exit code and one message, and leave nothing behind.

The fixture checks the last: processes and run directories, in which the sockets lie.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from phantora_runs import PROGRAMS, Phantora

from phantora_py.agent.output import LAST_WORDS, SAID_ABOVE
from phantora_py.data import RunData
from phantora_py.launch import fork_servers

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
    "leave": (5, "phantora: collectives: deadlock: rank 0 waits and nobody can end the waiting; "),
    "device memory": (4, "phantora: a rank failed: Rank 1 ended with exit code 1. "),
    "host memory": (4, "phantora: a rank failed: Rank 1 ended with exit code 1. "),
    "input": (4, "phantora: a rank failed: Rank 1 ended with exit code 1. "),
    **{
        case: (5, "phantora: collectives: Mismatched operation 4 of communicator 1: rank 0 issued ")
        for case in ("count", "type", "root", "kind")
    },
    "send": (5, "phantora: collectives: deadlock: ranks 0-1 wait and nobody can end the waiting; "),
    "two groups": (
        5,
        "phantora: collectives: deadlock: ranks 0-1 wait and nobody can end the waiting; ",
    ),
}
# What the message says beside that.
SAYS = {
    "exit": [f"Its last GPU call was at {PROGRAM}:{line_of('# before it fails')} disagree."],
    "device memory": [
        f"It had asked for 8.00 GiB of device memory at {PROGRAM}:{line_of('held.append')} fail, ",
        "GiB were free.",
    ],
    "count": ["AllReduce(10 x float32, sum) at", "AllReduce(11 x float32, sum) at"],
    "type": ["1048576 x float32", "1048576 x float16", f"{PROGRAM}:{line_of('half()')} disagree"],
    "root": ["root 0", "root 1", f"{PROGRAM}:{line_of('src=rank')} disagree"],
    "kind": ["AllReduce(1048576 x float32, sum)", "Broadcast(1048576 x float32, root 0)"],
    "send": ["Send number 0 from rank 0 to rank 1 of 1,048,576 x float32"],
    "two groups": [
        "communicator 2 (ranks 0-1), AllReduce number 0 of 1,048,576 x float32",
        "communicator 3 (ranks 0-1), AllReduce number 0 of 1,048,576 x float32",
    ],
}
# What ranks say themselves.
TRACEBACKS = {
    "raise": "ValueError: a bad batch",
    "device memory": "torch.OutOfMemoryError: ",
    "host memory": "MemoryError",
    "input": "EOFError",
}


@pytest.mark.parametrize("case", CASES)
def test_a_rank_that_fails(failing_phantora: Phantora, case: str) -> None:
    """One message of ours, which names the rank; the data file has it too."""
    if case == "input" and not Path("/dev/null").is_char_device():
        pytest.skip("/dev/null is a file on this machine, so there is something to read")
    exit_code, message = CASES[case]
    run = failing_phantora.run(["--ranks", "2"], [PROGRAM, case])
    ours = [line for line in run.errors.splitlines() if line.startswith("phantora: ")]
    assert run.exit_code == exit_code, run.errors
    assert len(ours) == 1, run.errors
    assert ours[0].startswith(message)
    assert run.wall_s < QUICK_S
    assert run.data.run["exit_code"] == exit_code
    # The screen has a rank's own words already, the data file beside the message.
    assert LAST_WORDS.sub(SAID_ABOVE, run.data.run["message"]) in run.errors
    assert (case in TRACEBACKS) == bool(LAST_WORDS.search(run.data.run["message"]))
    assert run.errors.count("Traceback") <= 1
    assert [said for said in SAYS.get(case, []) if said not in run.errors] == []
    assert (case in TRACEBACKS) == ("Traceback" in run.errors)
    assert TRACEBACKS.get(case, "") in run.errors


def test_a_deadlock_names_the_operation_and_the_line(failing_phantora: Phantora) -> None:
    """Who arrived at which line, and who is missing."""
    run = failing_phantora.run(["--ranks", "2"], [PROGRAM, "leave"])
    line = line_of("dist.all_reduce(gradients)")
    title = "communicator 1 (ranks 0-1), AllReduce number 4 of 1,048,576 x float32"
    assert title in run.errors
    (table,) = run.data.run["deadlock"]
    assert table["title"] == title
    arrived, missing = table["rows"]
    assert (arrived["ranks"], arrived["site"]) == ([0], f"{PROGRAM}:{line} main")
    assert (missing["ranks"], missing["state"]) == ([1], "missing: has ended with exit status 0")


def test_a_rank_that_loops_for_ever(failing_phantora: Phantora) -> None:
    """Nobody can decide that it does; after the user's limit it is named with its line."""
    run = failing_phantora.run(["--ranks", "2", "--stall-limit", "3"], [PROGRAM, "loop"])
    assert run.exit_code == 5, run.errors
    assert "phantora: collectives: there was no GPU call for " in run.errors
    lines = {f"{PROGRAM}:{line_of('while True:  # for ever') + more} fail" for more in (0, 1)}
    assert any(f"rank 1 is running without a GPU call, at {line}" in run.errors for line in lines)
    assert "; waiting for that: 0. That is the --stall-limit.\n" in run.errors


def test_objects_above_the_values_threshold(failing_phantora: Phantora) -> None:
    """Objects arrive as they were sent, whatever the threshold."""
    run = failing_phantora.run(["--ranks", "2"], [PROGRAM, "objects"])
    assert run.exit_code == 0, run.errors


@pytest.mark.parametrize("victim", ["sim_server", "launch.starter"])
def test_a_process_of_ours_that_is_killed(failing_phantora: Phantora, victim: str) -> None:
    """Exit code 70 and one message; the ranks go with it."""
    # Its starter is its own child, not a fork server's.
    alone = {fork_servers.FOLDER: ""}
    process, path = failing_phantora.start(["--ranks", "2"], [PROGRAM, "never"], alone)
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "under way\n"
        below = psutil.Process(process.pid).children()
        (chosen,) = [child for child in below if victim in " ".join(child.cmdline())]
        chosen.kill()
        assert process.wait(QUICK_S) == 70
        (message,) = process.stderr.read().splitlines()
    assert message.startswith("phantora: internal error: ")
    assert not path.exists()


def test_phantora_itself_is_killed(failing_phantora: Phantora) -> None:
    """It can say nothing; what was simulated can be read, and nothing else is left."""
    process, path = failing_phantora.start(["--ranks", "2"], [PROGRAM, "never"])
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "under way\n"
        process.kill()
    deadline_s = time.monotonic() + QUICK_S
    while not path.exists() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert RunData(path).run["ranks"] == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(failing_phantora: Phantora, tmp_path: Path, number: signal.Signals) -> None:
    """Its exit code within seconds, whatever the ranks are at; the data until then is kept."""
    process, path = failing_phantora.start(["--ranks", "2"], [PROGRAM, "never"])
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "under way\n"
        os.kill(process.pid, number)
        assert process.wait(QUICK_S) == 128 + number
        assert process.stderr.read() == (
            "phantora: interrupted: every rank was stopped; the data file ends there.\n"
        )
    data = RunData(path)
    assert data.run["exit_code"] == 128 + number
    assert len(data.operations) >= 3
    left = {path.name, "run-directory-0", "run-directory-1"}
    assert {file.name for file in tmp_path.iterdir()} == left


@pytest.mark.parametrize("kind", ["int", "float", "bool", "complex"])
def test_assertions_on_the_gpu(phantora: Phantora, kind: str) -> None:
    """One that a known value fails: each wait after it tells, as on hardware."""
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "assertions.py", kind])
    lines = run.output.splitlines()
    assert lines == ["held", "goes on", *["CUDA error: device-side assert triggered"] * 3], (
        run.errors
    )
    assert run.exit_code == 4
    assert "an assertion of the program on its GPU has failed: not zero" in run.errors
