"""Ranks in containers of an engine: the same run, whoever makes the containers."""

import io
import os
import secrets
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from phantora_py.isolation import backend
from phantora_py.isolation.engines import EngineFailed

LIMIT_S = 180.0


@pytest.fixture(params=backend.BACKENDS[1:])
def engine(request: pytest.FixtureRequest) -> str:
    """An engine that works here."""
    name: str = request.param
    try:
        backend.examine(name, "own")
    except EngineFailed as reason:
        pytest.skip(str(reason))
    return name


@pytest.fixture(autouse=True)
def leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """After every run here none of its processes is left, within its containers or without."""
    mark = secrets.token_hex(8)
    monkeypatch.setenv("PHANTORA_TEST", mark)
    yield
    assert settles(lambda: not processes("PHANTORA_TEST", mark))


def command(*options: str, script: str) -> list[str]:
    """The command for two ranks that run a shell script, one a node."""
    words = [sys.executable, "-m", "phantora_py", "run", "--nodes", "2", "--gpus-per-node", "1"]
    return [*words, "--quiet", "-o", "run.phr", *options, "--", "/bin/sh", "-c", script]


def run(directory: Path, *options: str, script: str) -> subprocess.CompletedProcess[str]:
    """Runs it."""
    return subprocess.run(
        command(*options, script=script),
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def processes(variable: str, value: str) -> list[psutil.Process]:
    """Living processes with this value in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(variable) == value:
                found.append(process)
        except psutil.Error:
            continue  # It has ended, or it is not ours.
    return found


def settles(condition: Callable[[], bool]) -> bool:
    """Whether the condition comes true in time."""
    deadline_s = time.monotonic() + LIMIT_S / 4
    while not (true := condition()) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return true


def test_ranks_live_on_their_nodes(engine: str, tmp_path: Path) -> None:
    """Names, files, processes and output are as with the native backend."""
    script = """
        echo "$(hostname) $(getent hosts node1 | cut -d. -f2-4 | tr -s ' ') $(ls /dev/shm | wc -l)"
        echo $RANK > rank-$RANK
        ls -d /proc/[0-9]* | wc -l > processes-$RANK
        readlink /proc/self/ns/pid >> pids; touch /dev/shm/of-the-node
    """
    done = run(tmp_path, "--backend", engine, script=script)
    assert (done.returncode, done.stderr) == (0, "")
    # Who speaks first has no name before its lines.
    said = {line.removeprefix(f"[rank{line[5]}]: ") for line in done.stdout.splitlines()}
    assert said == {"node0 88.1.2 node1 1", "node1 88.1.2 node1 1"}
    for rank in range(2):
        assert (tmp_path / f"rank-{rank}").read_text() == f"{rank}\n"
        assert int((tmp_path / f"processes-{rank}").read_text()) < 10
    assert len(set((tmp_path / "pids").read_text().split())) == 2
    assert not Path("/dev/shm/of-the-node").exists()


@pytest.mark.parametrize(
    ("end", "words"),
    [("exit 137", "exit code 137"), ("kill -11 $$", "was killed by signal 11 (SIGSEGV)")],
)
def test_a_rank_that_fails(engine: str, tmp_path: Path, end: str, words: str) -> None:
    """Exit codes and signals are told apart, and the other rank is stopped."""
    script = f"if [ $RANK = 1 ]; then {end}; fi; sleep 300"
    done = run(tmp_path, "--backend", engine, script=script)
    assert done.returncode == 4
    assert f"Rank 1 {words}" in done.stderr or f"Rank 1 ended with {words}" in done.stderr


def test_nothing_outlives_a_killed_phantora(engine: str, tmp_path: Path) -> None:
    """SIGKILL cannot be caught; containers, their processes and the run directory go as well."""
    mark = "PHANTORA_RUN_DIR"
    script = f"echo ${mark}; setsid sleep 300 & sleep 300"
    with subprocess.Popen(
        command("--backend", engine, script=script),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        run_dir = process.stdout.readline().strip()
        assert processes(mark, run_dir)
        process.send_signal(signal.SIGKILL)
        assert settles(lambda: not processes(mark, run_dir))
    assert settles(lambda: not Path(run_dir).exists())


def test_read_only(engine: str, tmp_path: Path) -> None:
    """An engine protects the machine's files as the native backend does."""
    script = "touch here-$RANK && ! touch /usr/nowhere"
    done = run(tmp_path, "--backend", engine, "--read-only", script=script)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Read-only file system") == 2
    assert (tmp_path / "here-1").exists()


def test_an_engine_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what is missing; it does not fall back to less."""
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    done = run(tmp_path, "--backend", "bwrap", script="true")
    assert done.returncode == 2
    assert "--backend bwrap cannot be used: bwrap is not installed" in done.stderr
    done = run(tmp_path, "--backend", "bwrap", "--isolation", "process", script="true")
    assert "--isolation process means no containers" in done.stderr


def test_the_network_of_an_engine_is_stated(engine: str) -> None:
    """Whether its nodes have a network of their own is part of the tier."""
    own = backend.examine(engine, "own")
    assert own.tier == ("T3" if own.own_network else "T1")
    shared = backend.examine(engine, "host")
    assert shared.tier == "T3"
    assert shared.reason.startswith(f"containers of {engine}; own ")


def test_the_image_is_the_root_without_its_content() -> None:
    """Directories to bind the machine's to, links as they are, and no file."""
    pytest.importorskip("docker")
    from phantora_py.isolation import engine_api  # noqa: PLC0415

    archive = engine_api.root_archive()
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        members = {member.name: member for member in tar}
    assert {"proc", "sys", "dev", "run", "usr", "etc"} <= set(members)
    assert all(member.isdir() or member.issym() for member in members.values())
    for name, member in members.items():
        assert member.issym() == Path("/", name).is_symlink()
        assert not member.issym() or member.linkname == os.readlink(f"/{name}")
    assert archive == engine_api.root_archive()
