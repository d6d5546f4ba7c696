"""The agent's end of its connection to sim_server: one stream each way.

Answers go to the ranks from the thread that receives them: every hand-over from thread to thread
costs a rank that waits some ten microseconds. Everything else is the loop's business.
"""

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator

import grpc

from phantora_py.agent.channels import Channels
from sim_server import simulation_pb2 as wire
from sim_server.errors import Deadlock, InternalError, PhantoraError, UsageError
from sim_server.simulation_pb2_grpc import SimulationStub

CHANNEL_OPTIONS = (
    # One message may hold a ring's content of every rank.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # A server that is just starting is tried again soon.
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 200),
)
_CHECK_INTERVAL_S = 0.05


def error_of(failure: wire.Failure) -> PhantoraError:
    """The error behind a failure that the server reports."""
    if failure.exit_code == Deadlock.exit_code:
        return Deadlock(failure.message, json.loads(failure.tables or "[]"))
    kinds = {kind.exit_code: kind for kind in PhantoraError.__subclasses__()}
    return kinds.get(failure.exit_code, InternalError)(failure.message)


class Simulation:
    """A joined simulation. Messages are taken in order; `ended` is set once no more will come."""

    def __init__(self, address: str, token: str, channels: Channels) -> None:
        """`address`: unix:PATH or HOST:PORT. Another thread brings answers to their ranks and wakes
        whoever polls `channels` at any other message.
        """
        self._address = address
        self._metadata = (("phantora-token", token),)
        self._channels = channels
        self._channel = grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
        self._outgoing: queue.SimpleQueue[wire.FromAgent | None] = queue.SimpleQueue()
        self._incoming: queue.SimpleQueue[wire.ToAgent | None] = queue.SimpleQueue()
        self._error: grpc.RpcError | None = None
        self._receiver: threading.Thread | None = None
        self.ended = False

    def join(self, hello: wire.Hello, check: Callable[[], None], limit_s: float) -> None:
        """Says hello as soon as the server is there, and waits for the welcome.

        `check` is called now and then and may raise.
        Raises: UsageError if nobody answers within `limit_s` or the server turns us away, or the
        error that the server had with the settings in `hello`.
        """
        self.send(wire.FromAgent(hello=hello))
        stub = SimulationStub(self._channel)
        responses = stub.Attach(
            iter(self._outgoing.get, None), metadata=self._metadata, wait_for_ready=True
        )
        self._receiver = threading.Thread(target=self._receive, args=(responses,), daemon=True)
        self._receiver.start()
        first = self._wait_for_first(check, limit_s)
        if first is not None and first.HasField("failure"):
            raise error_of(first.failure)
        if first is None or not first.HasField("welcome"):
            raise UsageError(f"The server at {self._address} turned us away: {self._reason()}")

    def _wait_for_first(self, check: Callable[[], None], limit_s: float) -> wire.ToAgent | None:
        deadline_s = time.monotonic() + limit_s
        while time.monotonic() < deadline_s:
            try:
                return self._incoming.get(timeout=_CHECK_INTERVAL_S)
            except queue.Empty:
                check()
        raise UsageError(f"Nobody answers at {self._address} (waited {limit_s:g} s).")

    def send(self, message: wire.FromAgent) -> None:
        """Sends in the background, in order."""
        self._outgoing.put(message)

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

    def check_orderly_end(self) -> None:
        """Raises: InternalError if the stream ended before the server had said everything."""
        if self._error is not None:
            raise InternalError(f"The connection to sim_server broke: {self._reason()}")

    def close(self) -> None:
        """Ends the connection; the channels are left alone from then on."""
        self._outgoing.put(None)
        self._channel.close()
        if self._receiver is not None:
            self._receiver.join()

    def _receive(self, responses: Iterator[wire.ToAgent]) -> None:
        try:
            for message in responses:
                if message.HasField("answers"):
                    self._deliver(message.answers)
                else:
                    self._incoming.put(message)
                    self._channels.wake()
        except grpc.RpcError as error:
            self._error = error
        self._incoming.put(None)
        self._channels.wake()

    def _deliver(self, answers: wire.Answers) -> None:
        for one in answers.answers:
            self._channels.answer(
                one.rank, one.slot, one.status, one.time_ns, one.value, one.payload
            )

    def _reason(self) -> str:
        error = self._error
        if isinstance(error, grpc.Call):
            return f"{error.details()} ({error.code().name})"
        return "it closed the connection"
