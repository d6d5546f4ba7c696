"""A server that tests attack, and an agent that says whatever they want."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from sim_server import service
from sim_server import simulation_pb2 as wire
from sim_server.access import Endpoint
from sim_server.access.endpoint import TOKEN_KEY
from sim_server.access.offer import Offer, make_hello
from sim_server.cluster import load_cluster
from sim_server.gpu import load_gpu
from sim_server.settings import Settings

LIMIT_S = 30.0
TOKEN = "a token of tests"
OFFER = Offer(load_cluster("h100"))
METHOD = "/phantora.Simulation/Attach"


def honest_hello(ranks: int = 2, local_ranks: Sequence[int] = (0, 1)) -> wire.Hello:
    """What an agent of a run on one node says."""
    settings = Settings(ranks, 1, ranks, OFFER.cluster, load_gpu("h100"))
    return make_hello(settings, list(local_ranks))


class Agent:
    """A connection to a server on which any bytes can be sent."""

    def __init__(
        self, endpoint: Endpoint, *metadata: tuple[str, str], is_patient: bool = True
    ) -> None:
        """`metadata`: in place of the right token. `is_patient`: tries until it is connected."""
        self._channel = grpc.insecure_channel(
            endpoint.address.text,
            options=[
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.max_send_message_length", -1),
            ],
        )
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        attach = self._channel.stream_stream(
            METHOD,
            request_serializer=lambda content: content,
            response_deserializer=wire.ToAgent.FromString,
        )
        self.stream = attach(
            iter(self._outgoing.get, None),
            metadata=metadata or ((TOKEN_KEY, endpoint.token),),
            timeout=LIMIT_S,
            wait_for_ready=is_patient,
        )

    def say(self, *contents: wire.FromAgent | bytes) -> Agent:
        """Sends messages, or bytes that are none."""
        for one in contents:
            self._outgoing.put(one if isinstance(one, bytes) else one.SerializeToString())
        return self

    def hello(self, hello: wire.Hello | None = None) -> Agent:
        """Says hello, honestly by default."""
        return self.say(wire.FromAgent(hello=hello or honest_hello()))

    def refusal(self) -> tuple[grpc.StatusCode, str]:
        """How the server turns it away; it may not hear anything else before."""
        with pytest.raises(grpc.RpcError) as caught:
            next(self.stream)
        error = caught.value
        assert isinstance(error, grpc.Call)
        return error.code(), str(error.details())

    def failure(self) -> wire.Failure:
        """What ends the run that it has joined."""
        for message in self.stream:
            if message.HasField("failure"):
                return message.failure
        raise AssertionError("the server ended the run as if all were well")

    def end_ranks(self, *ranks: int) -> None:
        """Tells the end of its ranks, and its own."""
        for rank in ranks:
            self.say(wire.FromAgent(rank_exited=wire.RankExited(rank=rank)))
        self.say(wire.FromAgent(finish=wire.Finish()))

    def finish(self, *ranks: int) -> bool:
        """Ends an honest run whose ranks did nothing. Whether all of its data came."""
        self.end_ranks(*ranks)
        has_all = any(message.data_chunk.last for message in self.stream)
        self.close()
        return has_all

    def close(self) -> None:
        """Goes, at whatever moment."""
        self._outgoing.put(None)
        self._channel.close()


class Attacked:
    """A server in a thread of its own."""

    def __init__(self, endpoint: Endpoint, agents: int) -> None:
        self.endpoint = endpoint
        self._exit_code: int | None = None
        self._thread = threading.Thread(target=self._serve, args=(agents,), daemon=True)
        self._thread.start()

    def _serve(self, agents: int) -> None:
        self._exit_code = service.serve(self.endpoint, agents, OFFER)

    @property
    def exit_code(self) -> int | None:
        """Waits for its end."""
        self._thread.join(LIMIT_S)
        return self._exit_code

    def serves_a_run(self) -> None:
        """It works as if nothing had happened, and ends as it should."""
        agent = Agent(self.endpoint).hello()
        assert next(agent.stream).HasField("welcome")
        assert agent.finish(0, 1)
        assert self.exit_code == 0


@contextmanager
def attacked(directory: Path, agents: int = 1, address: str | None = None) -> Iterator[Attacked]:
    """A server that has to have ended when the test has."""
    endpoint = Endpoint.of(address or f"unix:{directory}/socket", TOKEN)
    server = Attacked(endpoint, agents)
    yield server
    assert server.exit_code is not None, "the server still serves"
