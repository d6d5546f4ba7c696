"""Runs that follow each other: their starters are forked from a process with their imports."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from phantora_py.data import RunData
from phantora_py.launch import fork_servers
from phantora_py.launch.imports import Import, shareable

pytestmark = pytest.mark.torch

LIMIT_S = 240.0
# What it prints is one for processes that are forked from one server.
PROGRAM = """
import os
import sys
import time
import torch
{more}
torch.ones(4, device="cuda").sum()
torch.cuda.synchronize()
print(id(torch), os.environ.get("NCCL_DEBUG_FILE"), os.getcwd(), flush=True)
if len(sys.argv) > 1:
    os.fork()
    time.sleep(1000)
"""


class Runs:
    """Runs of one program that share a folder."""

    def __init__(self, folder: Path, more: str = "") -> None:
        self.folder = folder
        (folder / "program.py").write_text(PROGRAM.format(more=more))
        self.servers = Path(os.environ[fork_servers.FOLDER])

    @contextlib.contextmanager
    def start(self, *arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
        """A run that goes on, until the end of the context at most."""
        words = [sys.executable, "-m", "phantora_py", "run", "--quiet", "-o", "run.phr", "--"]
        with subprocess.Popen(
            [*words, sys.executable, "program.py", *arguments],
            cwd=self.folder,
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.terminate()

    def run(self, **variables: str) -> tuple[str, str]:
        """A run to its end: what tells who has imported PyTorch, and the variable that it saw."""
        with self.start(**variables) as process:
            output, errors = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, errors
        imported, seen, folder = output.split()
        assert folder == str(self.folder)
        return imported, seen

    @property
    def logs(self) -> str:
        """What the servers have said."""
        return "".join(log.read_text() for log in self.servers.glob("*.log"))

    def processes(self) -> list[psutil.Process]:
        """The servers; what they have forked has their command, too."""
        found = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if str(self.servers) in process.cmdline():
                    found[process.pid] = process
        return [one for one in found.values() if one.ppid() not in found]

    def warm(self) -> None:
        """Until there is a server."""
        self.run()
        self.run()
        await_(lambda: any(one.is_socket() for one in self.servers.iterdir()))
        self.run()


def await_(what: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    """Waits until `what()` is true."""
    deadline_s = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


@contextlib.contextmanager
def own_folder() -> Iterator[None]:
    """Not that of the other tests."""
    others = os.environ.pop(fork_servers.FOLDER)
    try:
        with fork_servers.offered():
            yield
    finally:
        os.environ[fork_servers.FOLDER] = others


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """With a server."""
    with own_folder():
        runs = Runs(tmp_path_factory.mktemp("shared"))
        runs.warm()
        yield runs
    await_(lambda: not runs.processes())


def test_the_third_run_imports_nothing(runs: Runs) -> None:
    """Nor do later ones; what they do is what a run does that imports for itself."""
    imported, _ = runs.run()
    shared = RunData(runs.folder / "run.phr").run
    assert runs.run() == (imported, "None")
    folder = os.environ.pop(fork_servers.FOLDER)
    try:
        alone, _ = runs.run()
    finally:
        os.environ[fork_servers.FOLDER] = folder
    assert alone != imported
    assert RunData(runs.folder / "run.phr").run["digest"] == shared["digest"]
    assert shared["wall"]["core_seconds"] > 0
    assert not runs.logs


def test_a_variable_of_a_run(runs: Runs) -> None:
    """What NCCL reads when it is used is the run's own; what PyTorch's libraries read as they are
    loaded takes another server.
    """
    imported, _ = runs.run()
    assert runs.run(NCCL_DEBUG_FILE="here") == (imported, "here")
    assert runs.run(OMP_NUM_THREADS="2")[0] != imported


def test_a_killed_run_leaves_nothing(runs: Runs) -> None:
    """Neither its ranks nor what these have started; the server goes on."""
    imported, _ = runs.run()
    with runs.start("stays") as process:
        assert process.stdout is not None
        process.stdout.readline()
        (server,) = runs.processes()
        (starter,) = server.children()
        below = [starter, *starter.children(recursive=True)]
        assert len(below) >= 3
        process.kill()
    gone, alive = psutil.wait_procs(below, timeout=10)
    assert not alive, gone
    assert runs.run()[0] == imported


def test_a_killed_starter(runs: Runs) -> None:
    """The run ends with a sentence, and what its rank has started goes, too."""
    with runs.start("stays") as process:
        assert process.stdout is not None
        process.stdout.readline()
        (server,) = runs.processes()
        (starter,) = server.children()
        below = starter.children(recursive=True)
        starter.send_signal(signal.SIGKILL)
        _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 70
    assert "The process that starts the ranks was killed by signal 9." in errors
    assert not psutil.wait_procs(below, timeout=10)[1]


def test_an_interrupted_run(runs: Runs) -> None:
    """As one that imports for itself."""
    with runs.start("stays") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130, errors


def test_damaged_requests(runs: Runs) -> None:
    """Whoever writes nonsense gets no answer; the next run does."""
    (path,) = (one for one in runs.servers.iterdir() if one.is_socket())
    for text in (b"", b"nonsense\n", b"[1]\n", json.dumps({"environment": 3}).encode() + b"\n"):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(text)
            client.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(100) == b""
    runs.run()


def test_a_killed_server(runs: Runs) -> None:
    """Runs that it has forked end with a sentence; the next have another."""
    with runs.start("stays") as process:
        assert process.stdout is not None
        process.stdout.readline()
        (server,) = runs.processes()
        below = server.children(recursive=True)
        server.kill()
        _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 70
    assert "was killed by signal 9" in errors
    assert not psutil.wait_procs(below, timeout=10)[1]
    runs.warm()
    (another,) = runs.processes()
    assert another != server


def test_a_package_that_looks_at_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has looked at another run's variable in the server, which refuses; ranks see their own."""
    (tmp_path / "looking.py").write_text("import os\nseen = os.environ.get('NCCL_DEBUG_FILE')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    with own_folder():
        runs = Runs(tmp_path / "elsewhere", "import looking\nassert looking.seen != 'wrong'")
        runs.warm()
        imported, _ = runs.run()
        program = runs.folder / "program.py"
        program.write_text(program.read_text() + "print(looking.seen, file=sys.stderr)\n")
        with runs.start(NCCL_DEBUG_FILE="mine") as process:
            output, errors = process.communicate(timeout=LIMIT_S)
        assert errors == "mine\n"
        assert output.split()[0] != imported
        assert runs.logs == "refused: imports have read NCCL_DEBUG_FILE\n"


def test_what_is_shared() -> None:
    """Python's own modules and parts of PyTorch are no reason for a server of their own."""
    names = ("torch", "os", "numpy", "torch.nn", "torch.distributed.fsdp", "left.out", "numpy")
    wanted = [Import(name) for name in names]
    shared = shareable([*wanted, Import("torch.distributed.fsdp", ("FSDP",))], ["left"])
    assert [one.module for one in shared] == ["torch", "numpy", "torch.distributed.fsdp"]


def test_a_killed_owner(tmp_path: Path) -> None:
    """Its servers end, and so does what it has offered."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(more=""))
    owner = tmp_path / "owner.py"
    owner.write_text(
        "import os, subprocess, sys\n"
        "from phantora_py.launch import fork_servers\n"
        "with fork_servers.offered():\n"
        "    print(os.environ[fork_servers.FOLDER], flush=True)\n"
        "    for _ in range(2):\n"
        "        subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
        "    print('ran', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    words = [
        sys.executable,
        "-m",
        "phantora_py",
        "run",
        "--quiet",
        "--",
        sys.executable,
        str(program),
    ]
    environment = {n: value for n, value in os.environ.items() if n != fork_servers.FOLDER}
    with subprocess.Popen(
        [sys.executable, owner, *words],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert process.stdout.readline() == "ran\n"
        await_(lambda: any(one.is_socket() for one in folder.iterdir()))
        process.kill()
    await_(lambda: not folder.exists(), 10.0)
