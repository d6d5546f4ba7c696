"""Compiles the C++ programs of tests."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path

CSRC = Path(__file__).parents[1] / "csrc"


def compile_cxx(inputs: Iterable[Path], binary: Path, *options: str) -> Path:
    """Compiles and links sources and libraries, with the environment's CXXFLAGS; gives `binary`.

    Raises: subprocess.CalledProcessError.
    """
    command = ["c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{CSRC}"]
    command += [*options, *shlex.split(os.environ.get("CXXFLAGS", ""))]
    subprocess.run([*command, *map(str, inputs), "-o", str(binary)], check=True)
    return binary
