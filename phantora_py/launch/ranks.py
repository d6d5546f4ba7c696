"""The agent's view of the rank processes: starts them through the starter, hears of their ends,
stops them.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import psutil

from phantora_py.launch.starter import MAX_PACKET_BYTES, Plan, RankStart
from sim_server.errors import InternalError

# Between asking a rank to end and killing it (assumed: what a handler needs to write a last line).
GRACE_S = 2.0
_STOP_LIMIT_S = 10.0


class NotForkable(Exception):  # noqa: N818 - says what was found
    """Ranks cannot be forked from the zygote; the message says why."""


class RankProcesses:
    """The processes of this host's ranks, by rank.

    `pids`: each rank's process, or the first process of its pid namespace, while it lives.
    """

    def __init__(self, plan: Plan, environment: Mapping[str, str], output_to_stderr: bool) -> None:
        """Starts the starter; `wait_ready` waits until it can fork."""
        self.pids: dict[int, int] = {}
        self._ended: list[tuple[int, int]] = []
        self._namespaced = "pid" in plan.namespaces
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection = ours
        unbuffered = ["-u"] if "-u" in plan.argv else []
        with theirs:
            self._starter = subprocess.Popen(
                [
                    *(sys.executable, *unbuffered, "-m", "phantora_py.launch.starter"),
                    *(str(theirs.fileno()), str(os.getpid())),
                ],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=2 if output_to_stderr else None,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._send(asdict(plan))

    def wait_ready(self) -> None:
        """Waits for the zygote's imports. Raises: NotForkable."""
        reason = self._receive()["not_forkable"]
        if reason is not None:
            raise NotForkable(reason)

    def start(self, start: RankStart) -> None:
        """Forks one rank. Its pid is known when it returns."""
        self._send(asdict(start))
        while start.rank not in self.pids:
            self._take(self._receive())

    def take_ended(self) -> Iterator[tuple[int, int]]:
        """Ranks that ended since the last call, with exit code or minus the signal."""
        while True:
            try:
                packet = self._connection.recv(MAX_PACKET_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            if not packet:
                self._raise_starter_gone()
            self._take(json.loads(packet))
        ended, self._ended = self._ended, []
        yield from ended

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Asks all ranks to end and kills after `grace_s` what did not."""
        asked = [process for top in self._tops() for process in self._programs(top)]
        for process in asked:
            _signal(process, signal.SIGTERM)
        psutil.wait_procs(asked, timeout=grace_s)
        for top in self._tops():
            for process in (top, *_below(top)):
                _signal(process, signal.SIGKILL)

    def __enter__(self) -> "RankProcesses":
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the starter, which takes along whatever its ranks left running."""
        self._connection.close()
        try:
            self._starter.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._starter.kill()
            self._starter.wait()

    def _tops(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            return [psutil.Process(pid) for pid in self.pids.values() if psutil.pid_exists(pid)]
        return self._tops()  # One of them ended between two looks.

    def _programs(self, top: psutil.Process) -> list[psutil.Process]:
        """A rank's processes; the first process of its namespace, if any, ends by itself."""
        return _below(top) if self._namespaced else [top, *_below(top)]

    def _take(self, message: dict[str, Any]) -> None:
        if "pid" in message:
            self.pids[message["rank"]] = message["pid"]
        else:
            self.pids.pop(message["rank"], None)
            self._ended.append((message["rank"], message["status"]))

    def _send(self, message: dict[str, Any]) -> None:
        self._connection.sendall(json.dumps(message).encode())

    def _receive(self) -> dict[str, Any]:
        packet = self._connection.recv(MAX_PACKET_BYTES)
        if not packet:
            self._raise_starter_gone()
        message: dict[str, Any] = json.loads(packet)
        return message

    def _raise_starter_gone(self) -> None:
        raise InternalError(
            f"The process that starts the ranks ended with status {self._starter.wait()}; "
            "its own message is above."
        )


def _below(top: psutil.Process) -> list[psutil.Process]:
    try:
        return list(top.children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _signal(process: psutil.Process, number: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):  # It has ended on its own.
        process.send_signal(number)
