"""Rank processes: their ends are told as they were, and nothing outlives the run."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from phantora_py.isolation import container, probe
from phantora_py.isolation.nodes import Node, node_address, node_name
from phantora_py.launch import rundir
from phantora_py.launch.ranks import RankProcesses
from phantora_py.launch.rundir import RunDirectory
from phantora_py.launch.starter import Plan, RankStart

LIMIT_S = 20.0


@pytest.fixture(params=["auto", "process"])
def namespaces(request: pytest.FixtureRequest) -> frozenset[str]:
    """The most isolation there is, and none."""
    return probe.choose(request.param).namespaces


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[RunDirectory]:
    """A run directory for two nodes."""
    with rundir.run_directory(2, tmp_path / "partial", tmp_path / "output") as made:
        write_node_files(made)
        yield made


def write_node_files(directory: RunDirectory) -> None:
    """What two nodes need, with a network of their own or without."""
    rundir.write_hosts(directory, 2, own_network=True)
    for node in range(2):
        container.make_shared_memory(directory.path, node_name(node))


def run_ranks(
    directory: RunDirectory,
    namespaces: frozenset[str],
    script: str,
    stop_after: list[Path] | None = None,
) -> dict[int, int]:
    """Runs a shell script as two ranks, one a node; their exit statuses.

    `stop_after`: the ranks are stopped once these files are there.
    """
    mark = {"PHANTORA_RUN_DIR": str(directory.path)}
    plan = Plan(2, False, ["/bin/sh", "-c", script], "other", "sh", [], sorted(namespaces), mark)
    statuses: dict[int, int] = {}
    with RankProcesses(plan, {**os.environ, **mark}, output_to_stderr=False) as processes:
        start_all(processes, directory)
        deadline_s = time.monotonic() + LIMIT_S
        if stop_after is not None:
            while not all(file.exists() for file in stop_after) and time.monotonic() < deadline_s:
                time.sleep(0.01)
            processes.stop(grace_s=0.2)
        while len(statuses) < 2 and time.monotonic() < deadline_s:
            statuses.update(processes.take_ended())
            time.sleep(0.01)
        assert not processes.pids
    return statuses


def start_all(processes: RankProcesses, directory: RunDirectory) -> None:
    """Starts two ranks, one a node."""
    for rank in range(2):
        name = node_name(rank)
        shared_memory = container.shared_memory(directory.path, name)
        files = (str(directory.hosts), shared_memory, str(directory.resolver))
        node = Node(name, node_address(rank, own_network=True), *files)
        processes.announce(RankStart(rank, {"RANK": str(rank)}, node))
    processes.prepare()
    processes.wait_ready(lambda: None)
    for rank in range(2):
        processes.start(rank)


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 137", 137),
        ("kill -9 $$", -signal.SIGKILL),
        ("kill -6 $$", -signal.SIGABRT),
    ],
)
def test_status_is_told_as_it_was(
    directory: RunDirectory, namespaces: frozenset[str], script: str, status: int
) -> None:
    """Exit codes and signals are told apart, with a process namespace or without."""
    assert run_ranks(directory, namespaces, script) == {0: status, 1: status}


def test_ranks_know_who_they_are(
    directory: RunDirectory, namespaces: frozenset[str], tmp_path: Path
) -> None:
    """Each rank has its environment and, where names can be given, its node's name."""
    run_ranks(directory, namespaces, f"echo $RANK $(hostname) > {tmp_path}/$RANK")
    own = {"uts", "mnt"} <= namespaces
    machine = os.uname().nodename
    for rank in range(2):
        name = f"node{rank}" if own else machine
        assert (tmp_path / str(rank)).read_text() == f"{rank} {name}\n"


def test_process_ids_differ_between_ranks(directory: RunDirectory, tmp_path: Path) -> None:
    """Programs put them in file names, and ranks share directories."""
    found = probe.probe()
    run_ranks(directory, found.namespaces, f"echo $$ > {tmp_path}/$RANK")
    assert (tmp_path / "0").read_text() != (tmp_path / "1").read_text()


def test_ranks_that_ignore_the_request_are_killed(
    directory: RunDirectory, namespaces: frozenset[str], tmp_path: Path
) -> None:
    """Stopping takes no longer than the grace."""
    start_s = time.monotonic()
    script = f"trap '' TERM; touch {tmp_path}/$RANK; sleep 60; sleep 60"
    ready = [tmp_path / "0", tmp_path / "1"]
    statuses = run_ranks(directory, namespaces, script, stop_after=ready)
    assert statuses == {0: -signal.SIGKILL, 1: -signal.SIGKILL}
    assert time.monotonic() - start_s < LIMIT_S / 2


def test_what_a_rank_left_running_ends_with_the_run(
    directory: RunDirectory, namespaces: frozenset[str]
) -> None:
    """A process that a rank put in the background, in a session of its own, ends too."""
    run_ranks(directory, namespaces, "setsid sleep 61 & exit 0")
    assert not processes_of(directory.path)


@pytest.mark.parametrize("isolation", ["auto", "process"])
def test_nothing_outlives_a_killed_phantora(isolation: str, tmp_path: Path) -> None:
    """SIGKILL cannot be caught; the processes and the run directory go all the same, and what was
    written of the data file gets its name.
    """
    with subprocess.Popen(
        [sys.executable, __file__, isolation, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        run_dir = Path(parent.stdout.readline().strip())
        # The starter and both ranks, which may still be on their way into the shell.
        started = settles(lambda: len(processes_of(run_dir)) >= 3)
        parent.kill()
    assert started
    assert settles(lambda: not run_dir.exists() and not processes_of(run_dir))
    assert settles((tmp_path / "output").exists)
    assert (tmp_path / "output").read_text() == "as far as it went"
    assert not (tmp_path / "partial").exists()


def settles(condition: Callable[[], bool]) -> bool:
    """Whether the condition comes true in time."""
    deadline_s = time.monotonic() + LIMIT_S
    while not (true := condition()) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    return true


def processes_of(run_dir: Path) -> list[psutil.Process]:
    """Living processes of a run, by the mark in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("PHANTORA_RUN_DIR") == str(run_dir):
                found.append(process)
        except psutil.Error:
            continue  # It has ended, or it is not ours.
    return found


def sleep_in_ranks(isolation: str, scratch: Path) -> None:
    """What the process does that is going to be killed."""
    with rundir.run_directory(2, scratch / "partial", scratch / "output") as made:
        (scratch / "partial").write_text("as far as it went")
        write_node_files(made)
        mark = {"PHANTORA_RUN_DIR": str(made.path)}
        namespaces = sorted(probe.choose(isolation).namespaces)
        argv = ["/bin/sh", "-c", "sleep 62 & sleep 62"]
        plan = Plan(2, False, argv, "other", "sh", [], namespaces, mark)
        with RankProcesses(plan, {**os.environ, **mark}, output_to_stderr=True) as processes:
            start_all(processes, made)
            print(made.path, flush=True)
            time.sleep(60)


if __name__ == "__main__":
    sleep_in_ranks(sys.argv[1], Path(sys.argv[2]))
