"""The process from which the ranks of this host are forked.

    python -m phantora_py.launch.starter FD PARENT_PID

FD is its end of a socket pair (SOCK_SEQPACKET, one JSON object a packet);
`phantora_py.launch.ranks` holds the other. It is told a plan, then every rank, upon which it makes
that rank's namespaces; then to get ready, and to start one rank after the other. It tells every
rank's pid and, later, exit status. When the other end closes it kills what is left and ends, so
that no rank outlives the run.

If the plan says so it is a zygote (see `imports` and `zygote`); otherwise its children execute the
command.
"""

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from phantora_py.isolation import container, first, system
from phantora_py.isolation.names import Names
from phantora_py.isolation.nodes import SHARED, Node, Nodes
from phantora_py.launch import imports, spool, workers, zygote

MAX_PACKET_BYTES = 1 << 16


@dataclass(frozen=True)
class Plan:
    """What is common to all ranks. `fork`: be a zygote; `environment` is added to the starter's
    own. `left_out`: packages that a zygote does not import. `writable`: see `container.enter`.
    `own_ranks`: there is one process, the program, which starts ranks itself. `elsewhere`: the
    addresses of nodes on other hosts; if there are any, the wire to them is sent at once.
    """

    ranks: int
    fork: bool
    argv: list[str]
    form: str
    target: str
    arguments: list[str]
    namespaces: list[str]
    environment: dict[str, str]
    left_out: list[str] = field(default_factory=list)
    writable: list[str] | None = None
    backend: str = "native"
    own_ranks: bool = False
    elsewhere: list[str] = field(default_factory=list)

    @property
    def own_environment(self) -> dict[str, str]:
        """What of `environment` is for a zygote's imports, too; the others are for programs that
        ranks start.
        """
        others = ("PATH", "PYTHON")
        return {n: value for n, value in self.environment.items() if not n.startswith(others)}


@dataclass(frozen=True)
class RankStart:
    """What is particular to one rank. `arguments` come before those of the plan; `outputs`: files
    for its standard output and standard error, or none: they are ours.
    """

    rank: int
    environment: dict[str, str]
    node: Node
    arguments: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


class Starter:
    """Forks ranks as told and reports what becomes of them."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._starts: dict[int, RankStart] = {}
        self._first_pids: dict[int, int] = {}
        self._ranks: dict[int, int] = {}
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_writer.setblocking(False)
        self.plan = Plan(**self._receive())
        self._namespaces = frozenset(self.plan.namespaces)
        if "user" in self._namespaces:
            # One for all: whoever has it may make and join the others.
            container.enter(frozenset({"user"}), None)
            self._namespaces -= {"user"}
        self._nodes = Nodes(self._namespaces)
        if self.plan.elsewhere:
            with self._nodes.open_wire(self.plan.elsewhere) as cable:
                socket.send_fds(connection, [b"{}"], [cable.fileno()])
        self._names = Names() if "net" in self._namespaces else None

    def serve(self) -> RankStart | None:
        """Works until the other end closes, then returns None. In a rank: what it is to be."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_writer.fileno(), warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, selectors.EVENT_READ)
            selector.register(self._wake_reader, selectors.EVENT_READ)
            if self._names is not None:
                selector.register(self._names.socket, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if self._wake_reader in ready:
                    self._wake_reader.recv(4096)
                    self._report_ended()
                if self._names is not None and self._names.socket in ready:
                    self._names.answer()
                if self._connection in ready:
                    message = self._receive()
                    if not message:
                        return None
                    start = self._obey(message)
                    if start is not None:
                        return start

    def _obey(self, message: dict[str, Any]) -> RankStart | None:
        """Does what one packet says. In a new rank: what it is to be."""
        match message:
            case {"announce": announced}:
                start = RankStart(**{**announced, "node": Node(**announced["node"])})
                self._starts[start.rank] = start
                self._nodes.add(start.node)
                if "pid" in self._namespaces:
                    self._make_first(start)
            case {"prepare": True}:
                unfit = self._import() if self.plan.fork else {}
                self._send({"unfit": unfit})
            case {"start": rank}:
                return self._fork(self._starts[rank])
        return None

    def _import(self) -> dict[str, str]:
        """What ranks will share. Returns packages that stand in the way, and why."""
        plan = self.plan
        os.environ.update(plan.own_environment)
        of_ranks = {
            name
            for start in self._starts.values()
            for name, value in start.environment.items()
            if os.environ.get(name) != value
        }
        imports_wanted = imports.wanted(plan.form, plan.target, for_several=plan.ranks > 1)
        return imports.share(imports_wanted, plan.left_out, of_ranks)

    def _make_first(self, start: RankStart) -> None:
        limit = int(Path("/proc/sys/kernel/pid_max").read_text())
        spacing = min(1000, limit // (self.plan.ranks + 1))
        first_pid = (start.rank + 1) * spacing
        try:
            self._first_pids[start.rank] = first.make_first(lambda: self._enter(start), first_pid)
        except first.Killed:
            self._send({"lost": start.rank})

    def _enter(self, start: RankStart) -> None:
        """Moves a child into a rank's namespaces."""
        self._nodes.join(start.node.name)
        self._release()
        own = self._namespaces.difference(SHARED)
        container.enter(own, start.node, self.plan.writable)

    def _fork(self, start: RankStart) -> RankStart | None:
        """Forks a rank. Returns what it is to be in the rank, None here."""
        starter_pid = parent_pid = os.getpid()
        if start.rank in self._first_pids:
            parent_pid = 0  # It is in an outer namespace.
            try:
                pid = first.fork_into(self._first_pids[start.rank], self._namespaces)
            except OSError:
                if os.getpid() != starter_pid or not first.is_ending(self._first_pids[start.rank]):
                    raise
                self._send({"lost": start.rank})
                return None
            if pid == 0:
                self._release()
        else:
            pid = os.fork()
            if pid == 0:
                self._enter(start)
        if pid == 0:
            system.die_with_parent(parent_pid)
            os.setsid()
            return start
        self._ranks[pid] = start.rank
        self._send({"rank": start.rank, "pid": pid})
        return None

    def _report_ended(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._ranks:
                self._report(self._ranks.pop(pid), os.waitstatus_to_exitcode(status))
            for rank, first_pid in self._first_pids.items():
                if first_pid == pid and rank not in self._ranks.values():
                    self._send({"lost": rank})  # before it was started

    def _report(self, rank: int, status: int) -> None:
        first_pid = self._first_pids.pop(rank, None)
        if first_pid is not None and status == -signal.SIGKILL and first.is_ending(first_pid):
            self._send({"lost": rank})
            return
        self._send({"rank": rank, "status": status})
        if first_pid is not None:
            # With it goes what the rank left running.
            with contextlib.suppress(ProcessLookupError):
                os.kill(first_pid, signal.SIGKILL)

    def _release(self) -> None:
        """Undoes, in a child, what makes a starter."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._nodes.close()
        for end in (self._connection, self._wake_reader, self._wake_writer):
            end.close()
        if self._names is not None:
            self._names.socket.close()

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
    if start.outputs:
        spool.redirect(start.outputs)
    if not plan.fork:
        command = command_of(plan, start)
        os.execv(command[0], command)
    from phantora_py.rank import runtime  # noqa: PLC0415

    form, target, arguments = plan.form, plan.target, [*start.arguments, *plan.arguments]
    if plan.own_ranks:
        worker = workers.make_template(imports.read_variables())
        if worker is not None:
            form, target, arguments = worker.form, worker.target, worker.arguments
        runtime.prepare()
    else:
        # Attaches this process to its rank's channel; from here on its clock is virtual.
        runtime.start()
    # As Python does before a program. Up to here an interrupt just ends this process.
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    zygote.end_rank(zygote.run_program(form, target, arguments))


def command_of(plan: Plan, start: RankStart) -> list[str]:
    """What a rank that is not forked executes."""
    head = plan.argv[: len(plan.argv) - len(plan.arguments)]
    return [*head, *start.arguments, *plan.arguments]


def main() -> NoReturn:
    """Serves, until the end of the starter or of a rank's program."""
    sys.path.pop(0)  # Put there to start this module; the program must not see it.
    work(int(sys.argv[1]), int(sys.argv[2]))


def work(connection: int, parent_pid: int) -> NoReturn:
    """What this process does. `connection`: the descriptor of its end of the socket pair."""
    system.adopt_orphans()
    try:
        starter = Starter(socket.socket(fileno=connection))
        # Entering a user namespace would have undone it.
        system.die_with_parent(parent_pid)
        start = starter.serve()
    except OSError:
        # In a child that could not enter its namespaces, or in the starter itself: it cannot go on.
        traceback.print_exc()
        os._exit(70)
    if start is not None:
        _become(starter.plan, start)
    signal.set_wakeup_fd(-1)
    system.end_descendants()
    # Without taking down the modules, see zygote.end_rank.
    os._exit(0)


if __name__ == "__main__":
    main()
