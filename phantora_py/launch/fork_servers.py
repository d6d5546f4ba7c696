"""Starters of runs that follow each other, forked from a process that has their imports already.

Importing PyTorch takes most of the time of a short run. Whoever starts many runs offers them a
folder (`offered`). There, under a key of all that a starter depends on:

    KEY.seen      a run was here; the next one starts a fork server beside its own starter
    KEY.started   it has done so; what the server is to import
    KEY           the server's socket; from now on starters are forked
    KEY.log       what the server has to say

What a run may have that its server has not (`_MAY_DIFFER`, `_MAY_DIFFER_FROM`) is nothing that
PyTorch or Python look at while they are imported. If another package does, the server refuses.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from phantora_py.launch import imports
from phantora_py.launch.fork_server import OWNER, ROOM, ROOM_BYTES, Request
from phantora_py.launch.module import module_command
from phantora_py.launch.starter import Plan

FOLDER = "PHANTORA_FORK_SERVERS"
# A server answers at once; one that does not is left alone (assumed).
_ANSWER_LIMIT_S = 5.0
# What describes a run or a rank of it, and what shells set: read when it is used, if at all.
_MAY_DIFFER = frozenset(("RANK", "WORLD_SIZE", "PWD", "OLDPWD", "SHLVL", "_", "COLUMNS", "LINES"))
_MAY_DIFFER_FROM = (
    *("PHANTORA_", "NCCL_", "PYTEST_", "LOCAL_", "GROUP_", "ROLE_", "MASTER_", "TORCHELASTIC_"),
)
# Source: proc_pid_status(5). What a child inherits, but for its memory and descriptors.
_INHERITED = (
    *("Umask", "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"),
    *("NoNewPrivs", "Seccomp", "Cpus_allowed", "Mems_allowed", "SigBlk", "SigIgn"),
)

_used_s = 0.0


def cpu_s() -> float:
    """CPU time of starters that were forked from a server and have ended, with their ranks'."""
    return _used_s


@contextlib.contextmanager
def offered() -> Iterator[None]:
    """Runs that this process starts share their imports, until the end of the context or of this
    process. In one that shares imports already: with all the others.
    """
    if FOLDER in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="phantora-fork-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / OWNER
        os.mkfifo(path)
        owner = os.open(path, os.O_RDWR)
        os.environ[FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[FOLDER]
            os.close(owner)


@dataclass(frozen=True)
class Wants:
    """What a server is to import: see `imports.share`."""

    imports: Sequence[imports.Import]
    left_out: Sequence[str]
    of_ranks: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """As `fork_server` reads it."""
        return asdict(self) | {"imports": [(one.module, one.names) for one in self.imports]}


def wants_of(plan: Plan, of_ranks: Collection[str]) -> Wants:
    """What a server for such runs imports."""
    of_program = imports.wanted(plan.form, plan.target, for_several=plan.ranks > 1)
    shared = imports.shareable(of_program, plan.left_out)
    return Wants(shared, sorted(plan.left_out), sorted(of_ranks))


class Forked:
    """A starter that was forked; like a `Popen` as far as a starter needs one."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self._status: int | None = None

    def kill(self) -> None:
        """Has the server kill it; `wait` still tells how it has ended."""
        with contextlib.suppress(OSError):  # the server has ended, and the starter with it
            self._server.shutdown(socket.SHUT_WR)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, or minus the signal. Raises: TimeoutExpired."""
        global _used_s  # noqa: PLW0603 - as that of a process's children is
        if self._status is None:
            self._server.settimeout(timeout)
            try:
                end = _read_line(self._server)
            except TimeoutError:
                raise subprocess.TimeoutExpired("the starter", timeout or 0.0) from None
            # Without its server it has ended, too.
            self._status = end.get("status", -9)
            _used_s += end.get("cpu_s", 0.0)
            self._server.close()
        return self._status


def fork(
    flags: Sequence[str],
    environment: Mapping[str, str],
    wants: Wants,
    descriptors: Sequence[int],
) -> Forked | None:
    """A starter from a server, or None if there is none yet, or no folder for them.

    `flags`: of the interpreter. `environment`: the starter's, with what its imports are to see.
    `descriptors`: its end of the socket pair, its standard output and standard error.
    """
    if not (folder := environment.get(FOLDER)):
        return None
    kept = {
        name: value
        for name, value in environment.items()
        if name not in _MAY_DIFFER and not name.startswith(_MAY_DIFFER_FROM)
    }
    inherited = _inherited(kept)
    text = json.dumps([sys.executable, flags, kept, wants.to_json(), inherited], sort_keys=True)
    path = Path(folder, hashlib.sha256(text.encode()).hexdigest()[:16])
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.settimeout(_ANSWER_LIMIT_S)
    try:
        server.connect(str(path))
        request = json.dumps(asdict(Request(dict(environment), str(Path.cwd()))))
        socket.send_fds(server, [request[:1].encode()], descriptors)
        server.sendall(request[1:].encode() + b"\n")
        answered = "forked" in _read_line(server)
    except ConnectionRefusedError:  # it was killed
        answered = False
        path.with_suffix(".started").unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    except OSError:
        answered = False  # there is none, or it does not answer
    if answered:
        return Forked(server)
    server.close()
    with contextlib.suppress(FileExistsError, FileNotFoundError):
        _prepare(path, flags, kept, wants)
    return None


def _prepare(
    path: Path, flags: Sequence[str], environment: Mapping[str, str], wants: Wants
) -> None:
    """Starts a server for the runs to come, if this is the second run that would have used it."""
    seen = path.with_suffix(".seen")
    if not seen.exists():
        seen.touch()
        return
    started = path.with_suffix(".started")
    with started.open("x") as file:
        json.dump(wants.to_json(), file)
    command = module_command("phantora_py.launch.fork_server", *flags)
    log = (str(path.with_suffix(".log")), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    # Nobody waits for it: it outlives this run.
    os.posix_spawn(
        command[0],
        [*command, str(path.parent), path.name],
        {**environment, ROOM: "-" * ROOM_BYTES},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, str(started), os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, *log),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


def _read_line(server: socket.socket) -> dict[str, Any]:
    """What a server says next; nothing if it has ended. Raises: OSError."""
    text = b""
    while not text.endswith(b"\n"):
        if not (more := server.recv(1)):
            return {}
        text += more
    message: dict[str, Any] = json.loads(text)
    return message


def _inherited(environment: Mapping[str, str]) -> list[str]:
    """What a starter has from this process beside its environment. Source: proc(5)."""
    status = Path("/proc/self/status").read_text().splitlines()
    relative = any(not one.startswith("/") for one in environment.get("PYTHONPATH", "/").split(":"))
    return [
        *(line for line in status if line.partition(":")[0] in _INHERITED),
        *(f"{one.name} {os.readlink(one)}" for one in sorted(Path("/proc/self/ns").iterdir())),
        *(Path("/proc/self", name).read_text() for name in ("limits", "cgroup", "oom_score_adj")),
        f"{os.sched_getscheduler(0)} {os.getpriority(os.PRIO_PROCESS, 0)}",
        str(Path.cwd()) if relative else "",
    ]
