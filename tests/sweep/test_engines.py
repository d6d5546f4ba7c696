"""Sweeps on engines that exist: a Slurm of two hosts, a Ray."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import slurm_cluster
from idle_recording import make_recording

from phantora_py.cli import main
from phantora_py.sweep import task
from phantora_py.sweep.engines.slurm import state_text
from phantora_py.sweep.results import Results

PLAN = 'grid = {cluster = ["h100", "b200", "h200"]}'
LIMIT_S = 120


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a Slurm that runs."""
    if lacking := slurm_cluster.missing():
        pytest.skip(f"no {', '.join(lacking)}: install slurm-wlm and munge")
    with slurm_cluster.slurm(tmp_path_factory.mktemp("slurm")) as environment:
        yield environment


@pytest.fixture
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an engine that is there."""
    name: str = request.param
    if name == "ray":
        pytest.importorskip("ray", reason="needs Ray: pip install 'phantora[ray]'")
        monkeypatch.setenv("RAY_ADDRESS", "local")  # not the cluster of another test
    elif name == "slurm":
        for variable, value in request.getfixturevalue("slurm").items():
            monkeypatch.setenv(variable, value)
    return name


def sweep_words(directory: Path, engine: str, *options: str) -> list[str]:
    """A sweep of three conditions of a recording; one of them is refused."""
    if not (directory / "a.phr").exists():
        make_recording(directory / "a.phr")
    directory.joinpath("c.toml").write_text(PLAN)
    command = ["phantora", "resimulate", str(directory / "a.phr"), "--cluster={cluster}"]
    words = ["sweep", str(directory / "c.toml"), "--engine", engine, "-o", str(directory / "out")]
    return [*words, *options, "--", *command]


def sweep(words: list[str]) -> str:
    """Its standard output. A process of its own: Ray ends the one that it is in when a cluster is
    lost.
    """
    command = [sys.executable, "-P", "-m", "phantora_py", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("engine", ["local", "slurm", "ray"], indirect=True)
def test_results_are_those_of_any_engine(engine: str, tmp_path: Path) -> None:
    """What ends well and what does not; nothing but results is left, and nothing runs twice. The
    page is the one that a sweep on this machine makes of the same results.
    """
    page = tmp_path / "page.html"
    words = sweep_words(tmp_path, engine, "--json", "--html", str(page))
    first = json.loads(sweep(words))
    text = page.read_text(encoding="utf-8")
    assert all(f"cluster={name}" in text for name in ("h100", "b200", "h200"))
    finished = {one["name"]: one["exit_code"] for one in first["runs"]}
    assert finished == {"cluster=h100": 0, "cluster=h200": 0}
    (refused,) = first["without_data"]
    assert (refused["name"], refused["exit_code"]) == ("cluster=b200", 2)
    assert "B200" in refused["message"]
    kinds = sorted(path.suffix for path in (tmp_path / "out").iterdir())
    assert kinds == [".json"] * 3 + [".log"] * 3 + [".phr"] * 2
    data = Path(first["runs"][0]["file"])
    written_ns = data.stat().st_mtime_ns
    assert json.loads(sweep(words))["runs"] == first["runs"]
    assert data.stat().st_mtime_ns == written_ns
    page.unlink()
    sweep(sweep_words(tmp_path, "local", "--quiet", "--html", str(page)))
    assert page.read_text(encoding="utf-8") == text


def await_true(condition: Callable[[], Any]) -> None:
    """Fails if it does not come true."""
    limit_s = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < limit_s
        time.sleep(0.1)


def start_sweep(directory: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    """A sweep in a process of its own, by Slurm."""
    words = sweep_words(directory, "slurm")
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "phantora_py", *words],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def jobs(environment: dict[str, str]) -> list[str]:
    """What waits or runs."""
    words = ("squeue", "--noheader", "--array", "--format=%i")
    return slurm_cluster.ask(environment, *words).split()


@pytest.fixture
def held(slurm: dict[str, str]) -> Iterator[Callable[[], None]]:
    """Slurm starts nothing until this is called."""

    def update(*words: str) -> None:
        slurm_cluster.ask(slurm, "scontrol", "update", *words)

    update("PartitionName=all", "State=DOWN")
    yield lambda: update("PartitionName=all", "State=UP")
    update("PartitionName=all", "State=UP")


def test_jobs_of_a_sweep_that_was_killed(
    slurm: dict[str, str], held: Callable[[], None], tmp_path: Path
) -> None:
    """They are waited for by the next sweep, and not submitted again."""
    process = start_sweep(tmp_path, slurm)
    await_true(lambda: jobs(slurm))
    submitted = jobs(slurm)
    tasks = tmp_path / "out"
    await_true(lambda: any(submitted[0] in one.read_text() for one in tasks.glob("*.task")))
    process.kill()
    process.communicate()
    process = start_sweep(tmp_path, slurm)
    time.sleep(1)
    assert jobs(slurm) == submitted
    held()
    output, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, output
    assert "[3/3] cluster=h200 finished" in " ".join(output.split())


def test_an_interrupt_cancels_what_waits(
    slurm: dict[str, str], held: Callable[[], None], tmp_path: Path
) -> None:
    """Nothing is left in the queue."""
    process = start_sweep(tmp_path, slurm)
    await_true(lambda: jobs(slurm))
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130, output
    assert jobs(slurm) == []


def test_a_job_that_somebody_cancels(
    slurm: dict[str, str], held: Callable[[], None], tmp_path: Path
) -> None:
    """Is a failure of that configuration, with what Slurm says of it; the others go on."""
    process = start_sweep(tmp_path, slurm)
    await_true(lambda: jobs(slurm))
    slurm_cluster.ask(slurm, "scancel", jobs(slurm)[0])
    held()
    output, _ = process.communicate(timeout=LIMIT_S)
    said = " ".join(output.split())
    assert process.returncode == 0, output
    assert "cluster=h100 exit code 4: Slurm's job" in said
    assert "it was cancelled before it began" in said
    assert "[3/3] cluster=h200 finished" in said


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("CANCELLED by 0|one\n", "CANCELLED by 0 on one"),
        (
            "JobId=8 JobState=FAILED Reason=NonZeroExitCode ExitCode=1:0 NodeList=two Power=\n",
            "JobState FAILED, Reason NonZeroExitCode, ExitCode 1:0, NodeList two",
        ),
    ],
)
def test_what_became_of_a_job(said: str, state: str) -> None:
    """By sacct where there is accounting, else by scontrol."""
    assert state_text(said) == state


def test_what_slurm_refuses(
    slurm: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Is said in its words."""
    for variable, value in (slurm | {"SBATCH_PARTITION": "nowhere"}).items():
        monkeypatch.setenv(variable, value)
    assert main(sweep_words(tmp_path, "slurm")) == 2
    assert "invalid partition" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("engine", "said"),
    [("slurm", "needs Slurm's commands"), ("ray", "pip install 'phantora[ray]'")],
)
def test_an_engine_that_is_not_installed(
    engine: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Is named before anything is run."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(sweep_words(tmp_path, engine)) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_host_with_another_version(tmp_path: Path) -> None:
    """The task is not run; its result names the host."""
    results = Results(tmp_path)
    one = task.Task("one", "k", 1, ["run", "--", "true"], {}, {"version": "0.0"})
    task.write_task(tmp_path / "k.task", one)
    before = signal.getsignal(signal.SIGTERM)
    try:
        task.main(str(tmp_path / "k.task"))
    finally:
        signal.signal(signal.SIGTERM, before)
    result = results.read("k", "one")
    assert (result.exit_code, result.data) == (2, None)
    assert socket.gethostname() in result.message
    assert "was started with 0.0" in result.message
