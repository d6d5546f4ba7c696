"""`phantora` commands that are forked from a process that has imported what they import.

Run as a program, with its end of a socket pair: that process. It is told one command after the
other, and tells the pid and the exit status of each. It ends with who started it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

MESSAGE_BYTES = 1 << 17
# What a command may have in its environment that the process has not: it is not read by imports.
MAY_DIFFER = ("PHANTORA_", "PYTEST_", "NCCL_")


class CommandForks:
    """The process, from the side of the tests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._environment = dict(os.environ)
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(other.fileno())],
                cwd="/",
                env={**self._environment, "OPENBLAS_NUM_THREADS": "1"},
                pass_fds=[other.fileno()],
            )

    def close(self) -> None:
        """Ends it."""
        self._socket.close()
        self._process.wait()

    def can_take(self, environment: Mapping[str, str]) -> bool:
        """Whether a command with this environment is the same if it is forked."""
        names = self._environment.keys() | environment.keys()
        differ = {n for n in names if self._environment.get(n) != environment.get(n)}
        return all(name.startswith(MAY_DIFFER) for name in differ)

    def run(
        self,
        words: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        outputs: Sequence[IO[str]],
        limit_s: float,
    ) -> int:
        """The exit status of `phantora` with these words, or minus its signal. `outputs`: files for
        its standard output and standard error. Raises: TimeoutError if it takes longer than
        `limit_s`, once it has ended because it was asked to.
        """
        message = json.dumps([words, str(folder), dict(environment)]).encode()
        with self._lock:
            socket.send_fds(self._socket, [message], [file.fileno() for file in outputs])
            self._socket.settimeout(limit_s)
            pid = int(self._socket.recv(MESSAGE_BYTES))
            try:
                return int(self._socket.recv(MESSAGE_BYTES))
            except BaseException:  # that of a test's own limit, too
                self._end(pid)
                raise

    def _end(self, pid: int) -> None:
        """Asks a command to end, and ends it if it does not. What it says to that is read."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            os.kill(pid, number)
            with contextlib.suppress(TimeoutError):
                self._socket.recv(MESSAGE_BYTES)
                return


@functools.cache
def command_forks() -> CommandForks:
    """That of this process."""
    forks = CommandForks()
    atexit.register(forks.close)
    return forks


def serve(connection: socket.socket) -> tuple[bytes, list[int]] | None:
    """Forks commands until the other end closes, then returns None. In one: what it was told."""
    while True:
        message, outputs, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 2)
        if not message:
            return None
        if (pid := os.fork()) == 0:
            return message, outputs
        for output in outputs:
            os.close(output)
        connection.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def main() -> int:
    """Serves. In a command: what `python -m phantora_py` does; returns its exit status."""
    del sys.path[0]  # It is for this file.
    for name in ("phantora_py.cli.run", "phantora_py._channel"):
        importlib.import_module(name)
    from phantora_py.__main__ import main as carry_out  # noqa: PLC0415
    from phantora_py.launch.zygote import take_place  # noqa: PLC0415

    with socket.socket(fileno=int(sys.argv[1])) as connection:
        told = serve(connection)
    if told is None:
        return 0
    words, folder, environment = json.loads(told[0])
    nothing = os.open(os.devnull, os.O_RDONLY)
    take_place([nothing, *told[1]], (0, 1, 2), environment, folder)
    sys.path.insert(0, folder)
    sys.argv = ["phantora", *words]
    return carry_out()


if __name__ == "__main__":
    sys.exit(main())
