"""Pythons that a program starts itself, forked with its imports or executed: it cannot tell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from phantora_runs import PROGRAMS, Phantora

pytestmark = pytest.mark.torch

PROGRAM = PROGRAMS / "starts_pythons.py"
MARK = "had torch"


def plain(phantora: Phantora) -> list[str]:
    """What the program prints without phantora."""
    words = [sys.executable, str(PROGRAM)]
    done = subprocess.run(words, cwd=phantora.directory, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_pythons_with_the_imports_of_the_program(phantora: Phantora) -> None:
    """Their pids, parents, streams, folders, variables, signals and ends are as everywhere; those
    that need no start of their own have what the program imports.
    """
    run = phantora.run(["--gpus", "1"], [PROGRAM])
    assert run.exit_code == 0, run.errors
    lines = run.output.splitlines()
    told = [line.removesuffix(MARK).rstrip() for line in lines]
    assert told == list(map(str.rstrip, plain(phantora)))
    had = [line.endswith(MARK) for line in lines]
    # Not: another OMP_NUM_THREADS, an isolated Python, a function before it; and after os.wait().
    assert had[:7] == [True, True, True, False, False, False, True]
    assert (had[9], had[-1]) == (True, False)


def test_pythons_that_import_for_themselves(phantora: Phantora) -> None:
    """--no-zygote executes them all."""
    run = phantora.run(["--gpus", "1", "--no-zygote"], [PROGRAM])
    assert (run.exit_code, MARK in run.output) == (0, False), run.errors


@pytest.mark.parametrize(
    ("options", "command"),
    [
        (["--ranks", "1"], [sys.executable, "-I"]),
        (["--gpus", "1"], ["bash", "-c", '"$0" -E "$@"', sys.executable]),
    ],
)
def test_python_that_does_not_look_where_it_finds_us(
    phantora: Phantora, tmp_path: Path, options: list[str], command: list[str]
) -> None:
    """Its GPU work is simulated; that nobody tells its steps and values is said, and reported."""
    program = tmp_path / "plain.py"
    program.write_text("import torch\ntorch.zeros(8, device='cuda').add_(1)\n")
    run = phantora.run(options, [], whole=[*command, str(program)])
    assert run.exit_code == 0, run.errors
    told = "the Python of rank 0 was started so that it does not read PYTHONPATH (-I, -E or -S)"
    assert run.errors.count(told) == 1
    assert run.summary["trust"]["caveats"] == [{"rank": 0, "what": "hooks", "count": 1}]


def test_python_that_finds_us_is_told_nothing(phantora: Phantora, tmp_path: Path) -> None:
    """Not that of a shell either, nor a child of a rank."""
    program = tmp_path / "plain.py"
    program.write_text("import torch\ntorch.zeros(8, device='cuda').add_(1)\n")
    run = phantora.run(["--gpus", "1"], [], whole=["bash", "-c", f"{sys.executable} {program}"])
    assert (run.exit_code, "PYTHONPATH" in run.errors) == (0, False), run.errors
    assert run.summary["trust"]["caveats"] == []


def test_python_with_modules_of_its_own(phantora: Phantora, tmp_path: Path) -> None:
    """A shell that sets PYTHONPATH anew adds to it: optimizer steps are still told."""
    program = tmp_path / "plain.py"
    program.write_text(STEPS)
    words = ["bash", "-c", f"PYTHONPATH={tmp_path} {sys.executable} {program}"]
    run = phantora.run(["--gpus", "1"], [], whole=words)
    assert (run.exit_code, "PYTHONPATH" in run.errors) == (0, False), run.errors
    assert run.summary["iterations"]["detected_by"] == "optimizer"
    assert run.output == f"{tmp_path}\n"


STEPS = """\
import sys
import torch
model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    model(torch.ones(4, 4, device="cuda")).sum().backward()
    optimizer.step()
torch.cuda.synchronize()
print(sys.path[1])
"""
