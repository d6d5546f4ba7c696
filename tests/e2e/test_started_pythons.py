"""Pythons that a program starts itself, forked with its imports or executed: it cannot tell."""

from __future__ import annotations

import subprocess
import sys

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
