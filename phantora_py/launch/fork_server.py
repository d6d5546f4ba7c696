"""A process with the imports that many runs have, from which their starters are forked.

    python -m phantora_py.launch.fork_server FOLDER KEY < WANTS

See `fork_servers` for who starts it, and for the files in FOLDER. WANTS is a JSON object:
`imports`, `left_out` and `of_ranks`, as of `imports.share`.

A run connects and sends one line, a `Request` as JSON, with the descriptors of the starter's end of
its socket pair, of its standard output and of its standard error. It is told `{"refused": why}`, or
`{"forked": true}` and later how the starter has ended. When the run closes its end before that, the
starter is killed. The server ends once its folder's owner has ended, or when nothing has been asked
of it for a while.
"""

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from phantora_py.isolation import system
from phantora_py.launch import imports, starter, zygote

OWNER = "owner"
# What a starter shows of its environment in /proc stands where the server's own has this.
ROOM = "PHANTORA_ENVIRONMENT_ROOM"
ROOM_BYTES = 1 << 16
# Two runs of one kind follow each other sooner (assumed).
_IDLE_LIMIT_S = 180.0
# A request is written at once (assumed).
_REQUEST_LIMIT_S = 5.0
_DESCRIPTORS = 3


@dataclass(frozen=True)
class Request:
    """What the starter is to be executed with."""

    environment: dict[str, str]
    folder: str


class ForkServer:
    """Forks starters as asked, and tells how they end."""

    def __init__(self, folder: Path, key: str) -> None:
        self._runs: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_writer.setblocking(False)
        self._owner = os.open(folder / OWNER, os.O_RDONLY | os.O_NONBLOCK)
        self._path = folder / key
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # It is found under its name once it can be asked.
        unfinished = self._path.with_suffix(".new")
        self._listener.bind(str(unfinished))
        self._listener.listen()
        unfinished.rename(self._path)

    def serve(self) -> tuple[Request, list[int]] | None:
        """Works until it is not needed any more, then returns None. In a starter: what it is to be,
        and its descriptors.
        """
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        for one in (self._listener, self._wake_reader, self._owner):
            self._selector.register(one, selectors.EVENT_READ)
        while True:
            ready = [key.fileobj for key, _ in self._selector.select(_IDLE_LIMIT_S)]
            if self._owner in ready:
                shutil.rmtree(self._path.parent, ignore_errors=True)  # killed, it could not
                return None
            if not ready and not self._runs:
                return None
            if self._wake_reader in ready:
                self._wake_reader.recv(4096)
                self._report_ended()
            for pid, run in self._runs.items():
                if run in ready:
                    self._selector.unregister(run)
                    os.kill(pid, signal.SIGKILL)
            if self._listener in ready and (asked := self._answer()) is not None:
                return asked

    def end(self) -> None:
        """Is not to be found any more, and leaves nothing behind."""
        signal.set_wakeup_fd(-1)
        self._path.unlink(missing_ok=True)
        self._path.with_suffix(".started").unlink(missing_ok=True)
        system.end_descendants()

    def _answer(self) -> tuple[Request, list[int]] | None:
        """Does what a run asks for. In the new starter: what it is to be."""
        run, _ = self._listener.accept()
        run.settimeout(_REQUEST_LIMIT_S)
        descriptors: list[int] = []
        pid = 0
        try:
            head, descriptors, _, _ = socket.recv_fds(run, 1, _DESCRIPTORS)
            with run.makefile("rb") as lines:
                request = Request(**json.loads(head + lines.readline()))
            if refused := _why_not(request.environment):
                print(f"refused: {refused}", file=sys.stderr)
                _tell(run, {"refused": refused})
            elif (pid := os.fork()) == 0:
                self._release()
                run.close()
                return request, descriptors
            else:
                _tell(run, {"forked": True})
        except (OSError, ValueError, TypeError) as error:
            print(f"a request was not answered: {error!r}", file=sys.stderr)
        for descriptor in descriptors:
            os.close(descriptor)
        if pid:
            self._runs[pid] = run
            self._selector.register(run, selectors.EVENT_READ)
        else:
            run.close()
        return None

    def _report_ended(self) -> None:
        """Tells runs how their starters have ended. What these have left running goes, too."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                break
            if pid in self._runs:
                run = self._runs.pop(pid)
                with contextlib.suppress(KeyError):  # it has closed its end
                    self._selector.unregister(run)
                cpu_s = used.ru_utime + used.ru_stime
                _tell(run, {"status": os.waitstatus_to_exitcode(status), "cpu_s": cpu_s})
                run.close()
        for orphan in set(system.children()) - self._runs.keys():
            os.kill(orphan, signal.SIGKILL)

    def _release(self) -> None:
        """Undoes, in a child, what makes a fork server."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        os.close(self._owner)
        for end in (self._listener, self._wake_reader, self._wake_writer, *self._runs.values()):
            end.close()


def _tell(run: socket.socket, message: Mapping[str, object]) -> None:
    with contextlib.suppress(OSError):  # it does not want to know any more
        run.sendall(json.dumps(message).encode() + b"\n")


def _why_not(environment: Mapping[str, str]) -> str:
    """Why no process with this environment can be forked from this one; empty if one can."""
    read = imports.read_variables()
    others = sorted(name for name in read if os.environ.get(name) != environment.get(name))
    if others:
        return f"imports have read {', '.join(others)}"
    return "" if len(_shown(environment)) <= ROOM_BYTES else "its environment is too large"


def _shown(environment: Mapping[str, str]) -> bytes:
    """Those of its variables that are not ours, as they stand in /proc/PID/environ."""
    own = (f"{n}={value}\0" for n, value in environment.items() if os.environ.get(n) != value)
    return b"".join(map(os.fsencode, own))


def _show(text: bytes) -> None:
    """Has /proc/PID/environ show `text`, too, of this process and of those that it forks: the
    kernel shows what a process was executed with. Raises: OSError, ValueError.
    """
    after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    # Source: proc_pid_stat(5), fields 50 and 51; the first of these is the third.
    start, end = int(after_name[47]), int(after_name[48])
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        place = memory.read(end - start).index(ROOM.encode())
        memory.seek(start + place + len(ROOM) + 1)
        memory.write(b"\0" + text.ljust(ROOM_BYTES - 1, b"\0"))


def _become(request: Request, descriptors: list[int]) -> NoReturn:
    """Turns this process, a fresh child, into a starter."""
    server_pid = os.getppid()
    connection, *outputs = descriptors
    os.setsid()
    _show(_shown(request.environment))
    standard = [os.open(os.devnull, os.O_RDONLY), *outputs]
    zygote.take_place(standard, (0, 1, 2), request.environment, request.folder)
    starter.work(connection, server_pid)


def main() -> NoReturn:
    """Serves, until the end of the server or of a starter."""
    sys.path.pop(0)  # Put there to start this module; programs must not see it.
    system.adopt_orphans()
    _show(b"")  # Where that is not possible there is no server.
    del os.environ[ROOM]
    folder, key = sys.argv[1:]
    os.chdir(folder)
    wants = json.load(sys.stdin)
    of_program = [imports.Import(module, tuple(names)) for module, names in wants["imports"]]
    if unfit := imports.share(of_program, wants["left_out"], wants["of_ranks"]):
        raise SystemExit(f"no run can be forked from this: {unfit}")
    server = ForkServer(Path(folder), key)
    asked = server.serve()
    if asked is not None:
        _become(*asked)
    server.end()
    # Without taking down the modules, see zygote.end_rank.
    os._exit(0)


if __name__ == "__main__":
    main()
