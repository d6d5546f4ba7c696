"""What is left of a killed run is found, whatever it does."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from phantora_py.launch import sweeper

# One process, which starts itself anew all the time: while it does it has no environment.
ANEW = "exec /bin/sh $0"


@contextmanager
def swept(run_dir: Path) -> Iterator[None]:
    """What is done meanwhile is swept up, by a process that is older, as `rundir` does."""
    run_dir.mkdir()
    files = [str(run_dir / "partial"), str(run_dir / "output")]
    command = [sys.executable, "-I", "-S", sweeper.__file__, str(run_dir), *files]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        yield
        process.communicate(timeout=20)
    assert process.returncode == 0
    assert not run_dir.exists()


@pytest.mark.parametrize("attempt", range(30))
def test_a_program_that_is_just_starting_is_found(attempt: int, tmp_path: Path) -> None:
    """It was missed in one of twenty looks."""
    del attempt
    run_dir = tmp_path / "run"
    script = tmp_path / "anew.sh"
    script.write_text(ANEW)
    marked = {**os.environ, "PHANTORA_RUN_DIR": str(run_dir)}
    with swept(run_dir):
        program = subprocess.Popen(["/bin/sh", str(script)], env=marked)
    try:
        assert program.wait(timeout=1) < 0
    finally:
        program.kill()
        program.wait()


def test_programs_of_others_are_left_alone(tmp_path: Path) -> None:
    """Also one without any environment, which is waited for a moment only."""
    with swept(tmp_path / "run"):
        other = subprocess.Popen(["/bin/sleep", "60"], env={})
    try:
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
