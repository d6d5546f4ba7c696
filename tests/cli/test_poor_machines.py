"""Machines that lack something: it works, or ends with exit code 2 and one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_run_command import may_mount

PHANTORA = f"{sys.executable} -m phantora_py"
RUN = f"{PHANTORA} run --quiet -o out.phr --"
SERVE = f"{PHANTORA} serve --listen unix:socket --token-file token"

FEW_PROCESSES = """
import os, resource, sys
from phantora_py.launch import limits
from sim_server.errors import UsageError

resource.setrlimit(resource.RLIMIT_NPROC, (int(sys.argv[1]),) * 2)
if os.geteuid() == 0:
    os.setuid(64321)  # nobody's
try:
    limits.require_processes(2) if sys.argv[2] == "run" else limits.require_server_processes()
except UsageError as error:
    print(error)
"""


def shell(directory: Path, script: str, *words: str, **environment: str) -> tuple[int, str]:
    """Exit code and errors of a script."""
    done = subprocess.run(
        [*words, "sh", "-c", script],
        check=False,
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (f"ulimit -f 100; {RUN} true", "A file may have 51,200 bytes here"),
        (f"ulimit -v 900000; {RUN} true", "A process may reserve 921,600,000 bytes of addresses"),
        (f"ulimit -v 4000000; {SERVE}", "the threads of a server reserve 17,179,869,184"),
        (f"{PHANTORA} cluster list >&-", "The standard output is closed"),
        (f"{RUN} true >&- 2>&1", ""),
    ],
    ids=[
        "file size",
        "addresses",
        "addresses of a server",
        "closed output",
        "closed output and errors",
    ],
)
def test_refused(tmp_path: Path, script: str, message: str) -> None:
    """Before anything is run."""
    code, said = shell(tmp_path, script)
    assert code == 2, said
    assert message in said
    assert len(said.splitlines()) <= 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("most", "who", "needs"),
    [
        (1, "run", "a run of 2 ranks needs"),
        (20, "run", "a run of 2 ranks needs"),
        (28, "run", "a run of 2 ranks needs"),
        (1, "server", "a server needs"),
        (12, "server", "a server needs"),
    ],
)
def test_few_processes(most: int, who: str, needs: str) -> None:
    """Of a user who is not root, whom the limit does not bind."""
    done = subprocess.run(
        [sys.executable, "-c", FEW_PROCESSES, str(most), who],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stderr == ""
    assert f"more processes and threads can be started here, and {needs}" in done.stdout


@pytest.mark.skipif(not may_mount(), reason="needs a user namespace that may mount")
def test_shared_memory_that_cannot_be_written_to(tmp_path: Path) -> None:
    """The directory for temporary files takes its place, unless its name is too long."""
    long = tmp_path / ("l" * 90)
    long.mkdir()
    words = ("unshare", "--map-root-user", "--mount")
    script = f"mount -t tmpfs -o ro none /dev/shm; {RUN} true"
    assert shell(tmp_path, script, *words, TMPDIR="/tmp")[0] == 0
    code, said = shell(tmp_path, script, *words, TMPDIR=str(long))
    assert code == 2
    assert "is too long for the names of sockets" in said


def test_what_killed_processes_keep_is_removed(tmp_path: Path) -> None:
    """Directories of multiprocessing lie in the run directory."""
    (tmp_path / "program.py").write_text(
        "import multiprocessing.util, os\n"
        "print(multiprocessing.util.get_temp_dir(), flush=True)\n"
        "os.kill(os.getpid(), 9)\n",
        encoding="utf-8",
    )
    code, said = shell(tmp_path, f"{RUN} {sys.executable} program.py >place")
    assert code == 4, said
    place = Path((tmp_path / "place").read_text(encoding="utf-8").strip())
    assert place.name.startswith("pymp-")
    assert not place.exists()
