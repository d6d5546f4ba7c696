"""A program without Python tells its calls when it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from program_runs import HERE, compile_program
from test_programs import cuda_headers

from phantora_py.launch.interpreter import inspect_interpreter
from phantora_py.launch.libraries import preload_list, shim_directory


def test_calls_are_told(tmp_path: Path) -> None:
    """The report of a C program that returns from main counts its calls."""
    torch = inspect_interpreter(sys.executable).torch
    if torch is not None and torch.cuda_major == 12:
        pytest.skip("a run takes the libraries of CUDA 12 here, and the program is one of CUDA 13")
    binary = tmp_path / "reset"
    compile_program(
        HERE / "cudart_reset.c", binary, cuda_headers(), preload_list(shim_directory(13))
    )
    command = [sys.executable, "-m", "phantora_py", "run", "--ranks", "2", "--", str(binary)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert " modelled   0 ignored" in done.stdout
    assert "not known" not in done.stdout
