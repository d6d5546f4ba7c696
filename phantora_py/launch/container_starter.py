"""The process that has an engine start the ranks of this host, each in its container.

    python -m phantora_py.launch.container_starter FD PARENT_PID

It stands in for `phantora_py.launch.starter` and is told the same. An engine starts containers; a
container's first process (`phantora_py.isolation.inside`) then connects to the socket that this one
has in the run directory, and so does the rank, which waits there until it is to begin.
"""

import contextlib
import json
import os
import selectors
import signal
import socket
import struct
import sys
import traceback
from pathlib import Path
from typing import Any

from phantora_py.isolation import inside, system
from phantora_py.isolation.backend import make_engine
from phantora_py.isolation.engines import EngineFailed
from phantora_py.isolation.names import Names
from phantora_py.isolation.nodes import Node
from phantora_py.launch import spool
from phantora_py.launch.starter import MAX_PACKET_BYTES, Plan, RankStart, command_of

_POLL_S = 0.2
_PEER_CREDENTIALS = struct.Struct("iII")


class ContainerStarter:
    """Has containers started as told, and reports what becomes of the ranks in them."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._starts: dict[int, RankStart] = {}
        self._waiting: dict[int, socket.socket] = {}
        self._pids: dict[int, int] = {}
        self.plan = Plan(**json.loads(connection.recv(MAX_PACKET_BYTES)))
        self._run_dir = self.plan.environment["PHANTORA_RUN_DIR"]
        namespaces = frozenset(self.plan.namespaces)
        self._engine = make_engine(self.plan.backend, self._run_dir, namespaces, self.plan.writable)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(inside.socket_path(self._run_dir))
        self._listener.listen(self.plan.ranks * 2)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._connection, selectors.EVENT_READ, self._obey)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        if "net" in namespaces:
            names = Names()
            self._selector.register(names.socket, selectors.EVENT_READ, names.answer)
        self._open = True

    def serve(self) -> None:
        """Works until the other end closes."""
        while self._open:
            self._turn(None)

    def end(self) -> None:
        """Ends every container that is left."""
        self._engine.close()

    def _turn(self, timeout_s: float | None) -> None:
        for key, _ in self._selector.select(timeout_s):
            key.data()

    def _obey(self) -> None:
        packet = b""
        with contextlib.suppress(ConnectionResetError):  # closed without having read our last
            packet = self._connection.recv(MAX_PACKET_BYTES)
        if not packet:
            self._open = False
            return
        match json.loads(packet):
            case {"announce": announced}:
                start = RankStart(**{**announced, "node": Node(**announced["node"])})
                self._starts[start.rank] = start
                self._engine.announce(start.node)
            case {"prepare": True}:
                try:
                    self._start_containers()
                    self._send({"unfit": {}})
                except EngineFailed as failure:
                    self._send({"failed": f"A container could not be started: {failure}"})
            case {"start": rank}:
                self._start_rank(self._starts[rank])

    def _start_containers(self) -> None:
        """Waits until all are up. Raises: EngineFailed."""
        first = [sys.executable, "-I", "-S", inside.__file__, self._run_dir]
        for rank, start in self._starts.items():
            self._write_start(start)
            self._engine.start(start.node, [*first, str(rank)])
        while self._open and len(self._waiting) < len(self._starts):
            self._engine.check()
            self._turn(_POLL_S)

    def _write_start(self, start: RankStart) -> None:
        content = {
            "command": command_of(self.plan, start),
            "environment": {**os.environ, **self.plan.environment, **start.environment},
            "directory": os.getcwd(),
        }
        path = Path(inside.start_path(self._run_dir, start.rank))
        path.touch(mode=0o600)
        path.write_text(json.dumps(content), encoding="utf-8")

    def _start_rank(self, start: RankStart) -> None:
        """Gives a waiting rank its output and lets it go."""
        connection = self._waiting.pop(start.rank)
        files = spool.open_for_writing(start.outputs)
        socket.send_fds(connection, [b"!"], files or [1, 2])
        for file in files:
            os.close(file)
        connection.close()
        self._send({"rank": start.rank, "pid": self._pids[start.rank]})

    def _accept(self) -> None:
        """Learns who connects: a container's first process, or a rank."""
        connection, _ = self._listener.accept()
        greeting = json.loads(connection.recv(MAX_PACKET_BYTES))
        if greeting["part"] == "first":
            take = lambda: self._take_end(connection, greeting["rank"])  # noqa: E731
            self._selector.register(connection, selectors.EVENT_READ, take)
            return
        credentials = connection.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size
        )
        self._pids[greeting["rank"]] = _PEER_CREDENTIALS.unpack(credentials)[0]
        self._waiting[greeting["rank"]] = connection

    def _take_end(self, connection: socket.socket, rank: int) -> None:
        """Takes a rank's status. A first process that ends without a word was killed."""
        packet = b""
        with contextlib.suppress(ConnectionResetError):
            packet = connection.recv(MAX_PACKET_BYTES)
        status = json.loads(packet) if packet else signal.SIGKILL
        self._send({"rank": rank, "status": os.waitstatus_to_exitcode(status)})
        self._selector.unregister(connection)
        connection.close()

    def _send(self, message: dict[str, Any]) -> None:
        # If the other end has closed, the next packet that is not there says so.
        with contextlib.suppress(BrokenPipeError):
            self._connection.sendall(json.dumps(message).encode())


def main() -> None:
    """Serves, until the other end closes."""
    sys.path.pop(0)
    connection = socket.socket(fileno=int(sys.argv[1]))
    try:
        starter = ContainerStarter(connection)
    except (EngineFailed, OSError):
        traceback.print_exc()
        sys.exit(70)
    try:
        # Entering a user namespace would have undone it.
        system.die_with_parent(int(sys.argv[2]))
        starter.serve()
    finally:
        starter.end()


if __name__ == "__main__":
    main()
