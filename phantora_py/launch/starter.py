"""The process from which the ranks of this host are forked.

    python -m phantora_py.launch.starter FD PARENT_PID

FD is its end of a socket pair (SOCK_SEQPACKET, one JSON object a packet);
`phantora_py.launch.ranks` holds the other. It is told a plan, then one rank after the other; it
tells every rank's pid and, later, exit status. When the other end closes it kills what is left and
ends, so that no rank outlives the run.

If the plan says so it is a zygote (see `zygote`); otherwise its children execute the command.
"""

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from phantora_py.isolation import system
from phantora_py.isolation.container import Node
from phantora_py.launch import zygote
from phantora_py.launch.offspring import Offspring, fork_rank

MAX_PACKET_BYTES = 1 << 16


@dataclass(frozen=True)
class Plan:
    """What is common to all ranks. `fork`: be a zygote; `environment` is added to the starter's
    own.
    """

    ranks: int
    fork: bool
    argv: list[str]
    form: str
    target: str
    arguments: list[str]
    namespaces: list[str]
    environment: dict[str, str]


@dataclass(frozen=True)
class RankStart:
    """What is particular to one rank. `silent`: its output is not shown."""

    rank: int
    environment: dict[str, str]
    node: Node
    silent: bool


class Starter:
    """Forks ranks as told and reports what becomes of them."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._offspring: dict[int, Offspring] = {}
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_writer.setblocking(False)
        self.plan = Plan(**self._receive())

    def prepare(self) -> None:
        """Imports what the ranks will need, if they are to be forked from here."""
        reason = None
        if self.plan.fork:
            reason = zygote.preload(self.plan.form, self.plan.target)
            zygote.freeze()
        self._send({"not_forkable": reason})

    def serve(self) -> RankStart | None:
        """Works until the other end closes, then returns None. In a rank: what it is to be."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, selectors.EVENT_READ)
            selector.register(self._wake_reader, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if self._wake_reader in ready:
                    self._wake_reader.recv(4096)
                    self._report_ended()
                if self._connection in ready:
                    message = self._receive()
                    if not message:
                        return None
                    start = RankStart(**{**message, "node": Node(**message["node"])})
                    if self._fork(start):
                        return start

    def end(self) -> None:
        """Kills every descendant that is left. Those of a killed parent become our own children."""
        signal.set_wakeup_fd(-1)
        while True:
            for task in Path("/proc/self/task").iterdir():
                for pid in (task / "children").read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
            try:
                os.wait()
            except ChildProcessError:
                return

    def _fork(self, start: RankStart) -> bool:
        """True in the rank."""
        namespaces = frozenset(self.plan.namespaces)
        offspring = fork_rank(start.rank, self.plan.ranks, namespaces, start.node, self._release)
        if offspring is None:
            return True
        self._offspring[offspring.pid] = offspring
        self._send({"rank": start.rank, "pid": offspring.pid})
        return False

    def _report_ended(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            ended = self._offspring.pop(pid, None)
            if ended is not None:
                self._send({"rank": ended.rank, "status": ended.exit_status(status)})

    def _release(self) -> None:
        """Undoes, in a child, what makes a starter."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for end in (self._connection, self._wake_reader, self._wake_writer):
            end.close()
        for other in self._offspring.values():
            if other.report is not None:
                os.close(other.report)

    def _receive(self) -> dict[str, Any]:
        try:
            packet = self._connection.recv(MAX_PACKET_BYTES)
        except ConnectionResetError:
            return {}  # The other end closed without having read our last packet.
        return json.loads(packet) if packet else {}

    def _send(self, message: dict[str, Any]) -> None:
        # If the other end has closed, the next packet that is not there says so.
        with contextlib.suppress(BrokenPipeError):
            self._connection.sendall(json.dumps(message).encode())


def _become(plan: Plan, start: RankStart) -> NoReturn:
    """Turns this process, a fresh child, into a rank."""
    os.environ.update(plan.environment)
    os.environ.update(start.environment)
    if start.silent:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
    if not plan.fork:
        os.execv(plan.argv[0], plan.argv)
    # Attaches this process to its rank's channel; from here on its clock is virtual.
    from phantora_py.rank import runtime  # noqa: PLC0415

    runtime.start()
    zygote.end_rank(zygote.run_program(plan.form, plan.target, plan.arguments))


def main() -> NoReturn:
    """Serves, until the end of the starter or of a rank's program."""
    sys.path.pop(0)  # The working directory, in which the program's modules may lie.
    system.die_with_parent(int(sys.argv[2]))
    system.adopt_orphans()
    starter = Starter(socket.socket(fileno=int(sys.argv[1])))
    starter.prepare()
    try:
        start = starter.serve()
    except OSError:
        # In a child that could not enter its namespaces, or in the starter itself: it cannot go on.
        traceback.print_exc()
        os._exit(70)
    if start is not None:
        _become(starter.plan, start)
    starter.end()
    # Without taking down the modules, see zygote.end_rank.
    os._exit(0)


if __name__ == "__main__":
    main()
