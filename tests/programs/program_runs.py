"""What running the C programs of this folder takes, with our libraries or with the vendor's.

A program begins with the rows of the interception tables that it covers, in the comment
`covers: ...`. After it `ranks: 2` says that it is run as so many processes, and `not for the
vendor: ...` why the vendor's libraries would not take it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
CSRC = HERE.parents[1] / "csrc"
PROGRAMS = sorted(HERE.glob("*.c"))
COVERS = re.compile(r"/\* covers: ([\w\s]+)\*/\n")
RANKS = re.compile(r"^/\* ranks: (\d+) \*/$", re.MULTILINE)
NOT_FOR_VENDOR = re.compile(r"^/\* not for the vendor: (.*) \*/$", re.MULTILINE)


class CompilationError(Exception):
    """What the compiler or the linker said."""


def covered_rows(source: Path) -> list[str]:
    """The rows that a program names. Raises: ValueError if it does not begin with them."""
    match = COVERS.match(source.read_text("ascii"))
    if match is None:
        raise ValueError(f"{source.name} does not begin with /* covers: ... */")
    return match[1].split()


def rank_count(source: Path) -> int:
    """The number of processes that the program is run as."""
    match = RANKS.search(source.read_text("ascii"))
    return int(match[1]) if match is not None else 1


def reason_to_skip(source: Path) -> str:
    """Why the vendor's libraries would not take the program; empty if they do."""
    match = NOT_FOR_VENDOR.search(source.read_text("ascii"))
    return match[1] if match is not None else ""


def find_cuda_headers(locations: Iterable[str]) -> Path | None:
    """The folder of cuda_runtime_api.h and of what it includes, under one of `nvidia` packages."""
    for location in locations:
        include = Path(location) / "cu13" / "include"
        if (include / "cuda_runtime_api.h").exists() and (include / "crt").is_dir():
            return include
    return None


def compile_program(
    source: Path, binary: Path, headers: Path, libraries: Iterable[Path], *options: str
) -> None:
    """Compiles and links a program, with the environment's CFLAGS. Raises: CompilationError."""
    command = ["gcc", "-std=gnu11", "-Wall", "-Werror", "-pthread", f"-I{HERE}", f"-I{CSRC}"]
    command += [f"-isystem{headers}", *shlex.split(os.environ.get("CFLAGS", "")), *options]
    command += [str(source), "-o", str(binary)]
    done = subprocess.run(
        [*command, *map(str, libraries)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise CompilationError(done.stderr)


def rank_variables(rank: int, ranks: int, directory: Path) -> dict[str, str]:
    """What a program of several ranks reads: its place, and the file that brings the unique id."""
    return {
        "RANK": str(rank),
        "RANKS": str(ranks),
        "RENDEZVOUS": str(directory / "unique-id"),
    }
