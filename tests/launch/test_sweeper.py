"""What is left of a killed run is found, whatever it does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from phantora_py.launch import sweeper

# One process, which starts itself anew all the time: while it does it has no environment.
ANEW = "exec /bin/sh $0"


def sweep(run_dir: Path) -> None:
    """As `rundir` does once phantora has ended."""
    files = [str(run_dir / "partial"), str(run_dir / "output")]
    command = [sys.executable, "-I", "-S", sweeper.__file__, str(run_dir), *files]
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=20)


@pytest.mark.parametrize("attempt", range(30))
def test_a_program_that_is_just_starting_is_found(attempt: int, tmp_path: Path) -> None:
    """It was missed in one of twenty looks."""
    del attempt
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    script = tmp_path / "anew.sh"
    script.write_text(ANEW)
    marked = {**os.environ, "PHANTORA_RUN_DIR": str(run_dir)}
    with subprocess.Popen(["/bin/sh", str(script)], env=marked) as program:
        try:
            sweep(run_dir)
            assert program.wait(timeout=1) < 0
        finally:
            program.kill()
    assert not run_dir.exists()


def test_programs_of_others_are_left_alone(tmp_path: Path) -> None:
    """Also one without any environment, which is waited for a moment only."""
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    with subprocess.Popen(["/bin/sleep", "60"], env={}) as other:
        sweep(run_dir)
        assert other.poll() is None
        other.kill()
    assert not run_dir.exists()
