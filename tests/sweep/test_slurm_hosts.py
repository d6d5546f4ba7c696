"""One run on two hosts of a real Slurm: an agent is a job step on its host."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import slurm_cluster
from program_on_hosts import MARKS, PROGRAM, check_places

from phantora_py.data import RunData

LIMIT_S = 240
pytestmark = MARKS


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    if lacking := slurm_cluster.missing():
        pytest.skip(f"no {', '.join(lacking)}: install slurm-wlm and munge")
    with slurm_cluster.slurm(tmp_path_factory.mktemp("slurm")) as environment:
        yield environment


def batch(slurm: dict[str, str], directory: Path, hosts: int) -> tuple[int, str]:
    """Runs on so many hosts of an allocation of two; exit code, and what was printed."""
    (directory / "program.py").write_text(PROGRAM)
    words = [sys.executable, "-m", "phantora_py", "run", "-o", "run.phr", "--quiet"]
    words += ["--engine", "slurm", "--hosts", str(hosts), "--listen", "127.0.0.1"]
    words += ["--nodes", "3", "--gpus-per-node", "1", "--", sys.executable, "program.py"]
    done = subprocess.run(
        [
            *("sbatch", "--wait", "--nodes=2", "--ntasks-per-node=1", "--output=log"),
            *("--exclusive", "--wrap", shlex.join(words)),
        ],
        cwd=directory,
        env=os.environ | slurm,
        check=False,
        capture_output=True,
        timeout=LIMIT_S,
    )
    return done.returncode, (directory / "log").read_text()


def test_a_run_on_two_hosts(slurm: dict[str, str], tmp_path: Path) -> None:
    """One data file; each host has a run directory of its own, which is gone."""
    code, printed = batch(slurm, tmp_path, 2)
    assert code == 0, printed
    check_places(printed)
    assert RunData(tmp_path / "run.phr").run["exit_code"] == 0


def test_an_allocation_that_is_too_small(slurm: dict[str, str], tmp_path: Path) -> None:
    code, printed = batch(slurm, tmp_path, 3)
    assert code == 2, printed
    assert "The allocation has 2 hosts" in printed
