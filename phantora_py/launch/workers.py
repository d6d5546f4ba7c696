"""Python workers of a program that starts them itself, without their imports.

With --gpus N a program executes a new Python for each worker, which imports PyTorch once more. So
the program has a *template* beside it: a child that was forked before the program began, with all
that is imported by then and one thread. A worker is forked from it instead of being executed
(docs/decisions/launchers.md says which). It becomes the program's own child, with the pid, signals
and exit status of one: the template's child forks it and ends, and the program adopts it.
"""

from __future__ import annotations

import _posixsubprocess
import contextlib
import ctypes
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from phantora_py.isolation import system
from phantora_py.launch import zygote

# A packet of a socket pair; a command with more is executed.
_MAX_BYTES = 1 << 17
_MAX_DESCRIPTORS = 64
_ADOPTION_LOOK_S = 0.0002
# Read by libraries as they are loaded, or by Python itself: who has others is executed.
_READ_AT_IMPORT = (
    *("LD_", "PYTHON", "PHANTORA_", "GLIBC_", "MALLOC_"),
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "TORCH", "PYTORCH_"),
)
# But these, which PyTorch reads where it uses them.
_READ_LATER = ("TORCHELASTIC_", "TORCH_NCCL_")
# From here on, `fork_exec` is told of a group, of users and of a function to call.
_TAIL_AT = 16


@dataclass(frozen=True)
class Start:
    """What a worker is to be. `passed`: the numbers of its descriptors beyond the first three."""

    argv: list[str]
    form: str
    target: str
    arguments: list[str]
    environment: dict[str, str]
    directory: str
    passed: list[int]
    ignored_signals: list[int]
    new_session: bool


def make_template(read: Collection[str]) -> Start | None:
    """Forks the template of this process, which from now on asks it for workers. Returns None here,
    and in every worker what that is to be. `read`: variables that the imports have looked at.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        ours.close()
        return _serve(theirs, program_pid)
    theirs.close()
    _Client(ours, pid, read).install()
    return None


# The template


def _serve(connection: socket.socket, program_pid: int) -> Start:
    """Forks workers until the program ends. Returns in each of them."""
    system.die_with_parent(program_pid)
    while True:
        packet, descriptors, _, _ = socket.recv_fds(connection, _MAX_BYTES, _MAX_DESCRIPTORS)
        if not packet:
            os._exit(0)
        middle = os.fork()
        if middle != 0:
            os.waitpid(middle, 0)
            for descriptor in descriptors:
                os.close(descriptor)
            continue
        middle = os.getpid()
        if os.fork() != 0:
            os._exit(0)
        _await_adoption(connection, middle, program_pid)
        connection.close()
        return _take_place(Start(**json.loads(packet)), descriptors)


def _await_adoption(connection: socket.socket, middle: int, program_pid: int) -> None:
    while (parent := os.getppid()) == middle:
        time.sleep(_ADOPTION_LOOK_S)
    if parent != program_pid:  # it has ended
        os._exit(128 + signal.SIGKILL)
    connection.send(str(os.getpid()).encode())


def _take_place(start: Start, descriptors: Sequence[int]) -> Start:
    """Gives this process what the worker would have been executed with."""
    numbers = (0, 1, 2, *start.passed)
    zygote.take_place(descriptors, numbers, start.environment, start.directory)
    if start.new_session:
        os.setsid()
    for number in start.ignored_signals:
        signal.signal(number, signal.SIG_IGN)
    sys.orig_argv = start.argv
    return start


# The program


class _Client:
    """In the program: has the template fork what Python would execute."""

    def __init__(self, connection: socket.socket, pid: int, read: Collection[str]) -> None:
        self._connection = connection
        self._pid = pid
        self._read = frozenset(read)
        self._program = os.getpid()
        self._environment = dict(os.environ)
        self._group = os.getpgrp()
        self._lock = threading.Lock()
        self._is_alive = True

    def install(self) -> None:
        """Stands between the program and the functions that execute or wait."""
        execute = _posixsubprocess.fork_exec

        def fork_exec(*arguments: Any) -> int:
            pid = self._fork(arguments) if self._is_usable() else None
            return execute(*arguments) if pid is None else pid

        _posixsubprocess.fork_exec = fork_exec
        if getattr(subprocess, "_fork_exec", None) is execute:
            subprocess._fork_exec = fork_exec  # type: ignore[attr-defined]
        for name, waits_for_any in _WAITS.items():
            setattr(os, name, self._ending_first(getattr(os, name), waits_for_any))

    def _is_usable(self) -> bool:
        return self._is_alive and os.getpid() == self._program and os.getpgrp() == self._group

    def _ending_first(
        self, wait: Callable[..., Any], waits_for_any: Callable[..., bool]
    ) -> Callable[..., Any]:
        """A wait for any child would include the template, which the program did not start."""

        def wait_without_template(*arguments: Any) -> Any:
            if self._is_usable() and waits_for_any(*arguments):
                with self._lock:
                    self._end()
            return wait(*arguments)

        return wait_without_template

    def _end(self) -> None:
        if not self._is_alive:
            return
        self._is_alive = False
        self._connection.close()
        with contextlib.suppress(ChildProcessError):
            _waitpid(self._pid, 0)

    def _fork(self, arguments: Sequence[Any]) -> int | None:
        """The pid of a worker that is forked; None: it has to be executed."""
        start = self._understand(arguments)
        if start is None or _is_rank():
            return None
        packet = json.dumps(asdict(start)).encode()
        streams = [
            given if given != -1 else number
            for number, given in enumerate((arguments[6], arguments[9], arguments[11]))
        ]
        descriptors = [*streams, *start.passed]
        if len(packet) > _MAX_BYTES or len(descriptors) > _MAX_DESCRIPTORS:
            return None
        with self._lock:
            if not self._is_alive:
                return None
            system.adopt_orphans()
            try:
                socket.send_fds(self._connection, [packet], descriptors)
                answer = self._connection.recv(64)
            except OSError:  # The program has killed it, or a descriptor is closed.
                answer = b""
            finally:
                system.adopt_orphans(adopt=False)
            if not answer:
                self._end()
                return None
            return int(answer)

    def _understand(self, arguments: Sequence[Any]) -> Start | None:
        words, executables, close_fds, passed, directory, environment = arguments[:6]
        # That no program could be executed is reported through a pipe that ends where one is.
        reports, new_session, tail = arguments[13], arguments[15], arguments[_TAIL_AT:]
        if not close_fds or not all(map(_is_unused, tail)):
            return None
        if not _is_ours(executables):
            return None
        argv = [os.fsdecode(word) for word in words]
        program = _program(argv[1:])
        own = dict(os.environ) if environment is None else _decoded(environment)
        directory = os.getcwd() if directory is None else os.fsdecode(directory)
        if program is None or not self._is_same_to_imports(own) or not os.path.isdir(directory):
            return None
        form, target, rest = program
        if form == "script" and not os.path.isfile(os.path.join(directory, target)):
            return None
        return Start(
            argv=argv,
            form=form,
            target=target,
            arguments=rest,
            environment=own,
            directory=directory,
            passed=[number for number in sorted(passed) if number > 2 and number != reports],
            ignored_signals=_ignored_signals(),
            new_session=bool(new_session),
        )

    def _is_same_to_imports(self, environment: Mapping[str, str]) -> bool:
        """Whether the template's imports are those of a process with this environment."""
        before = self._environment
        changed = {
            name
            for name in before.keys() | environment.keys()
            if before.get(name) != environment.get(name)
        }
        return not any(
            name in self._read
            or (name.startswith(_READ_AT_IMPORT) and not name.startswith(_READ_LATER))
            for name in changed
        )


_waitpid = os.waitpid
# Functions of `os`, and whether they wait for any child.
_WAITS: dict[str, Callable[..., bool]] = {
    "wait": lambda: True,
    "wait3": lambda *_: True,
    "wait4": lambda pid, *_: pid <= 0,
    "waitpid": lambda pid, *_: pid <= 0,
    "waitid": lambda kind, *_: kind in {os.P_ALL, os.P_PGID},
}


def _is_rank() -> bool:
    """Whether this process has come to use a GPU: what it starts are its helpers."""
    return "PHANTORA_RANK" in os.environ or bool(ctypes.CDLL(None).ph_has_clock())


def _is_unused(value: Any) -> bool:
    """Of an argument for a group, for users, for a function; whether to use vfork says nothing."""
    return value is None or isinstance(value, bool) or value == -1


def _is_ours(executables: Sequence[bytes]) -> bool:
    """Whether the first that exists is the Python that runs here, of the same environment."""
    found = next((os.fsdecode(one) for one in executables if os.access(one, os.X_OK)), None)
    return (
        found is not None
        and os.path.dirname(os.path.abspath(found)) == os.path.dirname(sys.executable)
        and os.path.realpath(found) == os.path.realpath(sys.executable)
    )


def _program(words: Sequence[str]) -> tuple[str, str, list[str]] | None:
    """Form, target and arguments of what a Python is to run; None: it needs a start of its own."""
    # Options that are as they are here, or nearly: what a worker prints is written line by line.
    usual = {"-u", *subprocess._args_from_interpreter_flags()}  # type: ignore[attr-defined]
    rest = list(itertools.dropwhile(usual.__contains__, words))
    if len(rest) > 1 and rest[0] in ("-c", "-m"):
        return ("text" if rest[0] == "-c" else "module"), rest[1], rest[2:]
    if rest and not rest[0].startswith("-"):
        return "script", rest[0], rest[1:]
    return None


def _decoded(environment: Sequence[bytes]) -> dict[str, str]:
    pairs = (os.fsdecode(one).partition("=") for one in environment)
    return {name: value for name, _, value in pairs}


def _ignored_signals() -> list[int]:
    """Those that Python itself does not ignore."""
    usual = {signal.SIGPIPE, signal.SIGXFSZ}
    others = signal.valid_signals() - usual
    return [int(one) for one in others if signal.getsignal(one) is signal.SIG_IGN]
