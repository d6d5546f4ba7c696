"""The agent's view of the rank processes: starts them through the starter, hears of their ends,
stops them.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple, NoReturn

import psutil

from phantora_py.launch import fork_servers
from phantora_py.launch.module import module_command
from phantora_py.launch.starter import MAX_PACKET_BYTES, Plan, RankStart
from phantora_py.machine.process_tree import tree
from sim_server.errors import InternalError, UsageError

# Between asking a rank to end and killing it (assumed: what a handler needs to write a last line).
GRACE_S = 1.0
# How soon the end of something else is noticed while the starter is getting ready.
_CHECK_INTERVAL_S = 0.1
_STOP_LIMIT_S = 10.0


class NotForkable(Exception):  # noqa: N818 - says what was found
    """Ranks cannot be forked from the zygote because of some packages that it has imported.

    `unfit`: their names, and why.
    """

    def __init__(self, unfit: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{package}: {why}" for package, why in unfit.items()))
        self.unfit = dict(unfit)


class Beside(NamedTuple):
    """Processes of a run that are no ranks: `pid` and all below it, but for `ranks` and all below
    these.
    """

    pid: int
    ranks: Collection[int]


class RankProcesses:
    """The processes of this host's ranks. `pids`: those that live, by rank; `beside`: the script
    that has started them.
    """

    def __init__(
        self,
        plan: Plan,
        environment: Mapping[str, str],
        output_to_stderr: bool,
        of_ranks: Collection[str] = (),
    ) -> None:
        """Starts the starter. Ranks are announced, then `wait_ready` waits until it can fork.

        `of_ranks`: environment variables that differ between ranks.
        """
        self.pids: dict[int, int] = {}
        self.beside: Beside | None = None
        self._ended: list[tuple[int, int]] = []
        self._imports = plan.fork and plan.backend == "native"
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection = ours
        with theirs:
            self._starter = _start(
                plan, environment, theirs, 2 if output_to_stderr else 1, of_ranks
            )
        self._send(asdict(plan))
        self._cable = self._take_cable() if plan.elsewhere else None

    @property
    def cable(self) -> socket.socket:
        """What leads to the nodes on other hosts (`phantora_py.isolation.wire`)."""
        assert self._cable is not None, "there are others"
        return self._cable

    def _take_cable(self) -> socket.socket:
        packet, descriptors, _, _ = socket.recv_fds(self._connection, MAX_PACKET_BYTES, 1)
        self._read(packet)
        return socket.socket(fileno=descriptors[0])

    @property
    def tops(self) -> Mapping[int, int]:
        """Processes with everything below them: all of the run's programs, each once."""
        return self.pids

    def tell_end(self, rank: int, how: str) -> str:
        """The first that has failed. `how`: the second half of a sentence."""
        return f"Rank {rank} {how} It was the first to fail; the others were stopped."

    def announce(self, start: RankStart) -> None:
        """Has everything made for a rank but the rank itself."""
        self._send({"announce": asdict(start)})

    def prepare(self) -> None:
        """Begins with the zygote's imports, once all ranks are announced."""
        self._send({"prepare": True})

    def wait_ready(self, check: Callable[[], None]) -> None:
        """Waits for the zygote's imports, or for the containers. `check` is called now and then.

        Raises: NotForkable, or UsageError if an engine fails, or what `check` does.
        """
        while not select.select([self._connection], [], [], _CHECK_INTERVAL_S)[0]:
            check()
        ready = self._receive()
        self._imports = False
        if "failed" in ready:
            raise UsageError(ready["failed"])
        if ready["unfit"]:
            raise NotForkable(ready["unfit"])

    def start(self, rank: int) -> None:
        """Forks an announced rank. Its pid is known when it returns."""
        self._send({"start": rank})
        while rank not in self.pids:
            self._take(self._receive())

    def take_ended(self) -> Iterator[tuple[int, int]]:
        """Ranks that ended since the last call, with exit code or minus the signal."""
        while True:
            try:
                packet = self._connection.recv(MAX_PACKET_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            self._take(self._read(packet))
        ended, self._ended = self._ended, []
        yield from ended

    def give_up(self, _silence_s: float) -> Iterator[int]:
        """Ranks that have ended without its being told; see OwnRanks."""
        yield from ()

    def others_go_on(self) -> bool:
        """Whether processes that are no ranks do something by themselves; see OwnRanks."""
        return False

    def refusal(self) -> str:
        """Why a process was ended that the program has started; see OwnRanks. A rank that is
        refused something is seen to end.
        """
        return ""

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Asks all ranks to end and kills after `grace_s` what did not."""
        asked = self._programs()
        for process in asked:
            _signal(process, signal.SIGTERM)
        psutil.wait_procs(asked, timeout=grace_s)
        for process in self._programs():
            _signal(process, signal.SIGKILL)

    def __enter__(self) -> "RankProcesses":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the starter, which takes along whatever its ranks left running."""
        self._connection.close()
        if self._cable is not None:
            self._cable.close()
        if self._imports:
            # It would not notice before the end of its imports. What it has made dies with it.
            self._starter.kill()
        try:
            self._starter.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._starter.kill()
            self._starter.wait()

    def _programs(self) -> list[psutil.Process]:
        """The ranks' processes and those below them."""
        found = []
        for top in self.pids.values():
            for pid in tree(top):
                with contextlib.suppress(psutil.NoSuchProcess):
                    found.append(psutil.Process(pid))
        return found

    def _take(self, message: dict[str, Any]) -> None:
        if "pid" in message:
            self.pids[message["rank"]] = message["pid"]
        else:
            self.pids.pop(message["rank"], None)
            self._ended.append((message["rank"], message["status"]))

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._connection.sendall(json.dumps(message).encode())
        except BrokenPipeError:
            self._raise_starter_gone()

    def _receive(self) -> dict[str, Any]:
        packet = b""
        with contextlib.suppress(ConnectionResetError):  # closed without having read our last
            packet = self._connection.recv(MAX_PACKET_BYTES)
        return self._read(packet)

    def _read(self, packet: bytes) -> dict[str, Any]:
        if not packet:
            self._raise_starter_gone()
        message: dict[str, Any] = json.loads(packet)
        if "lost" in message:
            raise InternalError(
                f"The process that holds the namespaces of rank {message['lost']} was killed, and "
                "the rank with it."
            )
        return message

    def _raise_starter_gone(self) -> NoReturn:
        status = self._starter.wait()
        if status < 0:
            raise InternalError(
                f"The process that starts the ranks was killed by signal {-status}."
            )
        raise InternalError(
            f"The process that starts the ranks ended with status {status}; "
            "its own message is above."
        )


def _start(
    plan: Plan,
    environment: Mapping[str, str],
    connection: socket.socket,
    output: int,
    of_ranks: Collection[str],
) -> "fork_servers.Forked | subprocess.Popen[bytes]":
    """A starter: one with its imports if it can be had. `output`: the descriptor of what ranks
    print.
    """
    flags = ["-u"] if "-u" in plan.argv else []
    native = plan.backend == "native"
    if plan.fork and native:
        descriptors = (connection.fileno(), output, 2)
        wants = fork_servers.wants_of(plan, of_ranks)
        merged = {**environment, **plan.own_environment}
        forked = fork_servers.fork(flags, merged, wants, descriptors)
        if forked is not None:
            return forked
    module = "starter" if native else "container_starter"
    return subprocess.Popen(
        [
            *module_command(f"phantora_py.launch.{module}", *flags),
            *(str(connection.fileno()), str(os.getpid())),
        ],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=output,
        pass_fds=[connection.fileno()],
        start_new_session=True,
    )


def _signal(process: psutil.Process, number: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):  # It has ended on its own.
        process.send_signal(number)
