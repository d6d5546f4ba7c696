"""One run on two hosts of a real Slurm: an agent is a job step on its host."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
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


def command(directory: Path, hosts: int, program: str = PROGRAM) -> list[str]:
    """A run of three ranks on so many hosts."""
    (directory / "program.py").write_text(program)
    words = [sys.executable, "-m", "phantora_py", "run", "-o", "run.phr", "--quiet"]
    words += ["--engine", "slurm", "--hosts", str(hosts), "--listen", "127.0.0.1"]
    return [*words, "--nodes", "3", "--gpus-per-node", "1", "--", sys.executable, "program.py"]


def batch(slurm: dict[str, str], directory: Path, hosts: int) -> tuple[int, str]:
    """Runs on so many hosts of an allocation of two; exit code, and what was printed."""
    done = subprocess.run(
        [
            *("sbatch", "--wait", "--nodes=2", "--ntasks-per-node=1", "--output=log"),
            *("--exclusive", "--wrap", shlex.join(command(directory, hosts))),
        ],
        cwd=directory,
        env=os.environ | slurm,
        check=False,
        capture_output=True,
        timeout=LIMIT_S,
    )
    return done.returncode, (directory / "log").read_text()


def start(
    slurm: dict[str, str], directory: Path, hosts: int, program: str = PROGRAM
) -> subprocess.Popen[str]:
    """The same where nothing is allocated."""
    return subprocess.Popen(
        command(directory, hosts, program),
        cwd=directory,
        env=os.environ | slurm,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


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


def test_hosts_that_are_not_allocated(slurm: dict[str, str], tmp_path: Path) -> None:
    """They are, for the run."""
    with start(slurm, tmp_path, 2) as process:
        printed, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, printed
    check_places(printed)
    assert RunData(tmp_path / "run.phr").run["exit_code"] == 0
    assert queue_ends(slurm)


def test_more_hosts_than_there_are(slurm: dict[str, str], tmp_path: Path) -> None:
    with start(slurm, tmp_path, 3) as process:
        printed, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 2, printed
    assert "--engine slurm: no 3 hosts: " in printed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_allocation(
    slurm: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    """As it ends a run, with the data so far."""
    with start(slurm, tmp_path, 2, "print('under way', flush=True)\nwhile True: pass\n") as process:
        assert process.stdout is not None
        assert any("under way" in line for line in process.stdout)
        process.send_signal(number)
        printed, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 128 + number, printed
    assert "phantora: interrupted: every rank was stopped" in printed
    assert (tmp_path / "run.phr").exists()
    assert queue_ends(slurm)


def test_a_killed_run_leaves_nothing(slurm: dict[str, str], tmp_path: Path) -> None:
    """Neither a run nor an allocation; what was simulated is kept."""
    program = (
        "import os\nprint('in', os.environ['PHANTORA_RUN_DIR'], flush=True)\nwhile True: pass\n"
    )
    with start(slurm, tmp_path, 2, program) as process:
        assert process.stdout is not None
        places = [next(process.stdout).split()[-1] for _ in range(3)]
        process.kill()
        process.wait(LIMIT_S)
    limit_s = time.monotonic() + 30
    while slurm_cluster.ask(slurm, "squeue", "--noheader", "--states=running"):
        assert time.monotonic() < limit_s
        time.sleep(0.1)
    assert queue_ends(slurm)
    assert not any(Path(place).exists() for place in places)
    assert RunData(tmp_path / "run.phr").run["exit_code"] == 128 + signal.SIGINT


@contextmanager
def waiting(slurm: dict[str, str], directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A run that waits for the hosts of another, which ends afterwards."""
    with start(slurm, directory, 2, "while True: pass\n") as first:
        while not slurm_cluster.ask(slurm, "squeue", "--noheader", "--states=running"):
            time.sleep(0.1)
        other = directory / "other"
        other.mkdir()
        with start(slurm, other, 2) as second:
            while not slurm_cluster.ask(slurm, "squeue", "--noheader", "--states=pending"):
                time.sleep(0.1)
            yield second
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=LIMIT_S)
    assert queue_ends(slurm)


def test_a_run_that_is_killed_while_it_waits(slurm: dict[str, str], tmp_path: Path) -> None:
    """It waits no longer."""
    with waiting(slurm, tmp_path) as run:
        run.kill()
        run.wait(LIMIT_S)
        limit_s = time.monotonic() + 30
        while slurm_cluster.ask(slurm, "squeue", "--noheader", "--states=pending"):
            assert time.monotonic() < limit_s
            time.sleep(0.1)


def test_an_interrupt_while_hosts_are_waited_for(slurm: dict[str, str], tmp_path: Path) -> None:
    with waiting(slurm, tmp_path) as run:
        run.send_signal(signal.SIGINT)
        assert run.wait(LIMIT_S) == 128 + signal.SIGINT


def queue_ends(slurm: dict[str, str]) -> bool:
    """Whether nothing is left in it; hosts take a while to be free again."""
    limit_s = time.monotonic() + LIMIT_S
    while slurm_cluster.ask(slurm, "squeue", "--noheader"):
        if time.monotonic() > limit_s:
            return False
        time.sleep(0.2)
    return True
