"""A Slurm of two hosts on this machine: its own daemons, in a directory of their own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from free_ports import free_port

DAEMONS = ("munged", "slurmctld", "slurmd")
# Daemons lie where an ordinary user does not look.
_PATH = os.pathsep.join((os.environ["PATH"], "/usr/sbin", "/sbin"))
_START_LIMIT_S = 60

_CONFIGURATION = """\
ClusterName=phantora
SlurmctldHost={host}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={directory}/munge.sock
SlurmctldPort={ports[0]}
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
NodeName=one NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} {size}
NodeName=two NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} {size}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> list[str]:
    """Which daemons this machine lacks."""
    return [name for name in DAEMONS if shutil.which(name, path=_PATH) is None]


@contextmanager
def slurm(directory: Path) -> Iterator[dict[str, str]]:
    """While entered, it runs. Yields the environment that Slurm's commands need."""
    (directory / "state").mkdir(parents=True)
    key = directory / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    size = f"CPUs={os.cpu_count()} RealMemory=4000"
    user = pwd.getpwuid(os.getuid()).pw_name
    names = {"host": socket.gethostname().split(".")[0], "user": user, "directory": directory}
    configuration = directory / "slurm.conf"
    configuration.write_text(
        _CONFIGURATION.format(**names, ports=[free_port() for _ in range(3)], size=size)
    )
    environment = {"SLURM_CONF": str(configuration)}
    socket_path = directory / "munge.sock"
    munged = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={socket_path}"]
    munged += [f"--pid-file={directory}/munged.pid", f"--seed-file={directory}/munge.seed"]
    commands = (
        munged,
        ["slurmctld", "-D"],
        *(["slurmd", "-D", "-N", name] for name in ("one", "two")),
    )
    processes = []
    try:
        for command in commands:
            processes.append(_start(command, directory, environment))
            if command is munged:
                _await(socket_path.exists, directory)
        _await(lambda: _idle_hosts(environment) == 2, directory)
        yield environment
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(timeout=60)


def ask(environment: dict[str, str], *words: str) -> str:
    """What a command of Slurm's prints."""
    return subprocess.run(
        words, env=os.environ | environment, check=True, capture_output=True, text=True
    ).stdout


def _idle_hosts(environment: dict[str, str]) -> int:
    words = ("sinfo", "--noheader", "--Node", "--format=%T")
    done = subprocess.run(
        words, env=os.environ | environment, check=False, capture_output=True, text=True
    )
    return done.stdout.split().count("idle")


def _start(
    command: list[str], directory: Path, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    with (directory / "daemons.log").open("ab") as log:
        return subprocess.Popen(
            command,
            env=os.environ | environment | {"PATH": _PATH},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _await(condition: Callable[[], bool], directory: Path) -> None:
    limit_s = time.monotonic() + _START_LIMIT_S
    while not condition():
        assert time.monotonic() < limit_s, (directory / "daemons.log").read_text()
        time.sleep(0.2)
