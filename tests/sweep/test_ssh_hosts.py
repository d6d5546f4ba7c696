"""One run on two hosts by a real ssh: a server of OpenSSH's on this machine, of the user's own."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from program_on_hosts import MARKS, PROGRAM, check_places

from phantora_py.data import RunData

LIMIT_S = 240
# It is this machine, but not one of the names for which no ssh is needed.
HOST = "127.0.0.2"
SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:" + os.environ["PATH"])
ENDED_S = 10.0
"""For the end of a run whose link has gone, on a loaded machine."""

pytestmark = [
    *MARKS,
    pytest.mark.skipif(SSHD is None or shutil.which("ssh") is None, reason="needs OpenSSH"),
]


@dataclass(frozen=True)
class Sshd:
    """`ssh`: the words that reach it. `known_hosts`: the keys of hosts that are trusted."""

    ssh: list[str]
    known_hosts: Path
    process: subprocess.Popen[bytes]


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    host_key, user_key = (tmp_path / name for name in ("host_key", "user_key"))
    for key in (host_key, user_key):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # the server's own wish
    options = {
        "ListenAddress": f"{HOST}:{port}",
        "HostKey": host_key,
        "AuthorizedKeysFile": user_key.with_suffix(".pub"),
        "StrictModes": "no",
        "UsePAM": "no",
        "PidFile": "none",
        "PermitRootLogin": "prohibit-password",
    }
    config = tmp_path / "sshd_config"
    config.write_text("".join(f"{name} {value}\n" for name, value in options.items()))
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text(f"[{HOST}]:{port} {host_key.with_suffix('.pub').read_text()}")
    ssh = ["ssh", "-F", "none", "-p", str(port), "-i", str(user_key)]
    ssh += ["-o", f"UserKnownHostsFile={known_hosts}"]
    assert SSHD is not None
    log = tmp_path / "sshd.log"
    with subprocess.Popen([SSHD, "-D", "-E", log, "-f", config]) as process:
        while not log.exists() or "listening" not in log.read_text():
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        tried = subprocess.run([*ssh, HOST, "true"], capture_output=True, text=True, check=False)
        if tried.returncode == 0:
            yield Sshd(ssh, known_hosts, process)
        process.terminate()
    if tried.returncode:  # an account without a password may be locked for sshd, say
        pytest.skip(f"sshd lets nobody in: {tried.stderr} {log.read_text()}")


def start(directory: Path, sshd: Sshd, program: str) -> subprocess.Popen[str]:
    """Three ranks on two hosts."""
    (directory / "program.py").write_text(program)
    words = [sys.executable, "-P", "-m", "phantora_py", "run", "-o", "run.phr", "--quiet"]
    words += ["--hosts", f"localhost,{HOST}", "--listen", "127.0.0.1"]
    words += ["--nodes", "3", "--gpus-per-node", "1", "--", sys.executable, "program.py"]
    return subprocess.Popen(
        words,
        cwd=directory,
        env=os.environ | {"PHANTORA_SSH": shlex.join(sshd.ssh)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def sessions(sshd: Sshd) -> list[psutil.Process]:
    return psutil.Process(sshd.process.pid).children(recursive=True)


def test_a_run(sshd: Sshd, tmp_path: Path) -> None:
    """One data file, and no agent is left."""
    with start(tmp_path, sshd, PROGRAM) as run:
        output, errors = run.communicate(timeout=LIMIT_S)
        assert run.returncode == 0, errors
    check_places(output)
    assert RunData(tmp_path / "run.phr").run["exit_code"] == 0
    assert not sessions(sshd)


def test_a_host_whose_key_is_unknown(sshd: Sshd, tmp_path: Path) -> None:
    """No question is asked."""
    sshd.known_hosts.write_text("")
    with start(tmp_path, sshd, PROGRAM) as run:
        _, errors = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 2, errors
    assert f"Host {HOST} cannot be reached by ssh: " in errors
    assert "Host key verification failed" in errors


def test_a_lost_connection(sshd: Sshd, tmp_path: Path) -> None:
    """The host is named, and nothing is left there."""
    forever = "import torch\nprint('on', flush=True)\n"
    forever += "while True:\n    torch.ones(1, device='cuda').item()\n"
    with start(tmp_path, sshd, forever) as run:
        assert run.stdout is not None
        assert "on" in run.stdout.readline()
        carriers = [one for one in sessions(sshd) if one.name().startswith("sshd")]
        agents = [one for one in sessions(sshd) if one not in carriers]
        assert agents
        for one in carriers:
            one.kill()
        cut_s = time.monotonic()
        _, errors = run.communicate(timeout=LIMIT_S)
        took_s = time.monotonic() - cut_s
    assert run.returncode in {4, 70}, errors
    assert HOST in errors
    assert took_s < ENDED_S
    assert not psutil.wait_procs(agents, timeout=ENDED_S)[1]
