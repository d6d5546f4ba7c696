"""The agent's end of its connection to sim_server: one stream each way.

Answers go to the ranks from the thread that receives them: every hand-over from thread to thread
costs a rank that waits some ten microseconds. Everything else is the loop's business.
"""

import json
import math
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import grpc
from google.protobuf.message import DecodeError

from phantora_py.agent.channels import Channels
from sim_server import simulation_pb2 as wire
from sim_server.access.endpoint import MAX_BATCH_BYTES, TOKEN_KEY, Endpoint
from sim_server.errors import Deadlock, InternalError, Interrupted, PhantoraError, UsageError

_CHECK_INTERVAL_S = 0.05
_LAST_WORDS_S = 1.0  # assumed enough, also on a busy machine
_OBSTACLE_LIMIT_S = 1.0
_METHOD = "/phantora.Simulation/Attach"
# Members of the data file that a server may write, and those that it may not.
_MEMBER = re.compile(r"[A-Za-z0-9_-]+([./][A-Za-z0-9_-]+)*")
_OWN_MEMBERS = ("start.json", "settings.json", "run.json")
_FAILURES = {kind.exit_code for kind in PhantoraError.__subclasses__()}


def error_of(failure: wire.Failure) -> PhantoraError:
    """The error behind a failure that the server reports."""
    if failure.exit_code == Deadlock.exit_code:
        return Deadlock(failure.message, json.loads(failure.tables or "[]"))
    if Interrupted.is_code(failure.exit_code):
        return Interrupted(failure.message, failure.exit_code - 128)
    kinds = {kind.exit_code: kind for kind in PhantoraError.__subclasses__()}
    return kinds.get(failure.exit_code, InternalError)(failure.message)


def batches(records: Sequence[wire.RankRecords]) -> Iterator[wire.Batch]:
    """What was found in the rings, in messages of a size that the server takes."""
    batch, size_bytes = wire.Batch(), 0
    for one in records:
        if size_bytes + len(one.cells) > MAX_BATCH_BYTES:
            yield batch
            batch, size_bytes = wire.Batch(), 0
        batch.ranks.append(one)
        size_bytes += len(one.cells)
    yield batch


class Unreachable(UsageError):  # noqa: N818 - says what was found
    """There is no server, or no way to it."""


class Simulation:
    """A joined simulation. Messages are taken in order; `ended` is set once no more will come."""

    def __init__(self, endpoint: Endpoint, channels: Channels) -> None:
        """Another thread brings answers to their ranks and wakes whoever polls `channels` at any
        other message.
        """
        self._address = endpoint.address.text
        self._metadata = ((TOKEN_KEY, endpoint.token),)
        self._channels = channels
        self._channel = endpoint.connect()
        self._attach = self._channel.stream_stream(
            _METHOD,
            request_serializer=wire.FromAgent.SerializeToString,
            response_deserializer=_read_message,
        )
        self._outgoing: queue.SimpleQueue[wire.FromAgent | None] = queue.SimpleQueue()
        self._incoming: queue.SimpleQueue[wire.ToAgent | None] = queue.SimpleQueue()
        self._fault = ""
        """What was wrong with the connection, or with what came over it."""
        self._is_broken = False
        """It ended without a word of the server's."""
        self._members: set[str] = set()
        self._receiver: threading.Thread | None = None
        self.ended = False
        self._parcels: list[wire.Parcels] = []
        self._take_parcels: Callable[[wire.Parcels], None] = self._parcels.append
        self._parcels_lock = threading.Lock()

    def join(
        self,
        hello: wire.Hello,
        check: Callable[[], None],
        limit_s: float,
        reach_limit_s: float = math.inf,
    ) -> None:
        """Says hello as soon as the server is there, and waits for the welcome.

        `check` is called now and then and may raise. `reach_limit_s`: for the server to be there.
        Raises: Unreachable if no server answers in these times, UsageError if the server refuses
        us, InternalError if it ends before it has said anything, or the error that the server had
        with the settings in `hello`.
        """
        self.send(wire.FromAgent(hello=hello))
        responses = self._attach(
            iter(self._outgoing.get, None), metadata=self._metadata, wait_for_ready=True
        )
        self._receiver = threading.Thread(target=self._receive, args=(responses,), daemon=True)
        self._receiver.start()
        first = self._wait_for_first(check, limit_s, reach_limit_s)
        if first is not None and first.HasField("failure"):
            raise error_of(first.failure)
        if first is None or not first.HasField("welcome"):
            if self._is_broken:
                self.check_orderly_end()
            raise UsageError(
                f"The server at {self._address} refused us: {self._fault or 'no Welcome'}"
            )

    def _wait_for_first(
        self, check: Callable[[], None], limit_s: float, reach_limit_s: float
    ) -> wire.ToAgent | None:
        began_s = time.monotonic()
        reach_by_s = began_s + reach_limit_s
        while time.monotonic() < began_s + limit_s:
            with suppress(queue.Empty):
                return self._incoming.get(timeout=_CHECK_INTERVAL_S)
            try:
                check()
            except InternalError:
                # What it said before it ended may still be on its way, and tells more.
                with suppress(queue.Empty):
                    if (said := self._incoming.get(timeout=_LAST_WORDS_S)) is not None:
                        return said
                raise
            if time.monotonic() >= reach_by_s:
                reach_by_s = math.inf
                if (obstacle := self._obstacle()) is not None:
                    raise Unreachable(self._unreached(reach_limit_s, obstacle))
        obstacle = self._obstacle()
        if obstacle is None:
            obstacle = "it is there and waits for other agents; its --agents says for how many."
        raise Unreachable(self._unreached(limit_s, obstacle))

    def _unreached(self, waited_s: float, obstacle: str) -> str:
        return f"No server answers at {self._address} (waited {waited_s:g} s): {obstacle}"

    def _obstacle(self) -> str | None:
        """What keeps a connection from being made, as gRPC says it: that of TLS, for one."""
        try:
            next(self._attach(iter(()), metadata=self._metadata, timeout=_OBSTACLE_LIMIT_S), None)
        except grpc.RpcError as error:
            if _code(error) != grpc.StatusCode.INVALID_ARGUMENT:
                return f"{_details(error)}."
        return None

    def send(self, message: wire.FromAgent) -> None:
        """Sends in the background, in order."""
        self._outgoing.put(message)

    def deliver_parcels(self, take: Callable[[wire.Parcels], None]) -> None:
        """From now on `take` gets what agents of other hosts send, in the thread that receives it;
        and first what they have sent already.
        """
        with self._parcels_lock:
            for parcels in self._parcels:
                take(parcels)
            self._take_parcels = take

    def take(self) -> Iterator[wire.ToAgent]:
        """The messages that are there."""
        while not self._incoming.empty():
            message = self.next_message()
            if message is not None:
                yield message

    def next_message(self) -> wire.ToAgent | None:
        """Waits for a message; None at the end of the stream."""
        if self.ended:
            return None
        message = self._incoming.get()
        self.ended = message is None
        return message

    def check_alive(self) -> None:
        """Raises: InternalError if the connection has ended before anything was simulated."""
        if self._receiver is not None and not self._receiver.is_alive():
            self.check_orderly_end()
            raise InternalError("sim_server closed the connection before the ranks were started")

    def check_orderly_end(self) -> None:
        """Raises: InternalError if the stream ended before the server had said everything."""
        if self._fault:
            raise InternalError(f"The connection to sim_server broke: {self._fault}")

    def close(self) -> None:
        """Ends the connection; the channels are left alone from then on."""
        self._outgoing.put(None)
        self._channel.close()
        if self._receiver is not None:
            self._receiver.join()

    def _receive(self, responses: Iterator[wire.ToAgent]) -> None:
        try:
            for message in responses:
                if fault := self._fault_of(message):
                    self._fault = fault
                    break
                if message.HasField("answers"):
                    self._deliver(message.answers)
                elif message.HasField("parcels"):
                    with self._parcels_lock:
                        self._take_parcels(message.parcels)
                else:
                    self._incoming.put(message)
                    self._channels.wake()
        except grpc.RpcError as error:
            self._fault = _details(error)
            self._is_broken = _code(error) == grpc.StatusCode.UNAVAILABLE
        except (TypeError, ValueError) as error:
            self._fault = f"the server sent an answer that is none ({error})"
        self._incoming.put(None)
        self._channels.wake()

    def _deliver(self, answers: wire.Answers) -> None:
        for one in answers.answers:
            self._channels.answer(
                one.rank, one.slot, one.status, one.time_ns, one.value, one.payload
            )

    def _fault_of(self, message: wire.ToAgent) -> str:
        """What no server sends: it would end the run as if all were well, or spoil its data."""
        content = message.WhichOneof("message")
        if content is None:
            return "the server sent a message that cannot be read"
        if content == "failure" and not _is_failure(message.failure):
            return f"the server sent a failure that is none, with code {message.failure.exit_code}"
        if content == "data_chunk":
            name = message.data_chunk.name
            if name in self._members or name in _OWN_MEMBERS or not _MEMBER.fullmatch(name):
                return f"the server sent {name[:80]!a} for the data file"
            self._members.add(name)
        return ""


def _is_failure(failure: wire.Failure) -> bool:
    try:
        tables = json.loads(failure.tables or "[]")
    except ValueError:
        return False
    return failure.exit_code in _FAILURES and isinstance(tables, list)


def _read_message(content: bytes) -> wire.ToAgent:
    """What is none is found by `_fault_of`; gRPC would write a traceback."""
    try:
        return wire.ToAgent.FromString(content)
    except DecodeError:
        return wire.ToAgent()


def _code(error: grpc.RpcError) -> grpc.StatusCode:
    assert isinstance(error, grpc.Call)
    return error.code()


def _details(error: grpc.RpcError) -> str:
    assert isinstance(error, grpc.Call)
    return f"{error.details()} ({error.code().name})"
