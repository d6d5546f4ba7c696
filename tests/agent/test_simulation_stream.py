"""The connection to the server, against a server that a test plays."""

import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from phantora_py.agent.simulation import Simulation, Unreachable
from sim_server import simulation_pb2 as wire
from sim_server import simulation_pb2_grpc as rpc
from sim_server.access import Endpoint
from sim_server.errors import InternalError, UsageError


class Played(rpc.SimulationServicer):
    """Welcomes agents with the right token and repeats `script`; then ends or breaks."""

    def __init__(self, script: list[wire.ToAgent], breaks: grpc.StatusCode | None = None) -> None:
        self._script = script
        self._breaks = breaks

    def Attach(  # noqa: N802 - the name of the RPC
        self, requests: Iterator[wire.FromAgent], context: grpc.ServicerContext
    ) -> Iterator[wire.ToAgent]:
        if dict(context.invocation_metadata())["phantora-token"] != "secret":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong token")
        assert next(requests).hello == HELLO
        yield from self._script
        if self._breaks is not None:
            context.abort(self._breaks, "fell over")


class Channels:
    """Counts wake-ups and keeps answers."""

    def __init__(self) -> None:
        self.wakes = 0
        self.answers: list[tuple[object, ...]] = []

    def wake(self) -> None:
        self.wakes += 1

    def answer(self, *answer: object) -> None:
        self.answers.append(answer)


@contextmanager
def connected(
    tmp_path: Path, servicer: Played, token: str = "secret"
) -> Iterator[tuple[Simulation, Channels]]:
    """A connection to a played server, and what it does to the channels."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    rpc.add_SimulationServicer_to_server(servicer, server)
    address = f"unix:{tmp_path}/s"
    server.add_insecure_port(address)
    server.start()
    channels = Channels()
    simulation = Simulation(Endpoint.of(address, token), channels)  # type: ignore[arg-type]
    try:
        yield simulation, channels
    finally:
        simulation.close()
        server.stop(grace=None).wait()


HELLO = wire.Hello(protocol_version=1, local_ranks=[0])
WELCOME = wire.ToAgent(welcome=wire.Welcome(protocol_version=1))


def test_messages_arrive_in_order(tmp_path: Path) -> None:
    """Every message wakes the agent, and the end of the stream is told once all were taken."""
    script = [WELCOME, *(wire.ToAgent(progress=wire.Progress(iterations=n)) for n in range(3))]
    with connected(tmp_path, Played(script)) as (simulation, channels):
        simulation.join(HELLO, lambda: None, limit_s=10)
        taken = []
        while (message := simulation.next_message()) is not None:
            taken.append(message.progress.iterations)
        assert taken == [0, 1, 2]
        assert simulation.ended
        assert channels.wakes == 5
        simulation.check_orderly_end()


def test_answers_go_to_their_ranks_at_once(tmp_path: Path) -> None:
    """They reach their slots without the agent's loop, which is not even woken."""
    answer = wire.Answer(rank=1, slot=2, status=1, time_ns=7, value=9, payload=b"p")
    script = [WELCOME, wire.ToAgent(answers=wire.Answers(answers=[answer, answer]))]
    with connected(tmp_path, Played(script)) as (simulation, channels):
        simulation.join(HELLO, lambda: None, limit_s=10)
        assert simulation.next_message() is None
        assert channels.answers == [(1, 2, 1, 7, 9, b"p")] * 2
        assert channels.wakes == 2


def test_a_wrong_token_is_the_user_s_error(tmp_path: Path) -> None:
    """It says what the server said."""
    with (
        connected(tmp_path, Played([WELCOME]), token="guess") as (simulation, _),
        pytest.raises(UsageError, match=r"refused us: wrong token \(UNAUTHENTICATED\)"),
    ):
        simulation.join(HELLO, lambda: None, limit_s=10)


def test_the_server_s_error_with_the_settings_is_raised(tmp_path: Path) -> None:
    """A failure instead of a welcome keeps its kind."""
    failure = wire.ToAgent(failure=wire.Failure(exit_code=2, message="no such profile"))
    with (
        connected(tmp_path, Played([failure])) as (simulation, _),
        pytest.raises(UsageError, match="no such profile"),
    ):
        simulation.join(HELLO, lambda: None, limit_s=10)


class Late(Played):
    """Says its script when it has been found dead."""

    def __init__(self, script: list[wire.ToAgent]) -> None:
        super().__init__(script)
        self.found_dead = threading.Event()

    def Attach(  # noqa: N802 - the name of the RPC
        self, requests: Iterator[wire.FromAgent], context: grpc.ServicerContext
    ) -> Iterator[wire.ToAgent]:
        self.found_dead.wait()
        yield from super().Attach(requests, context)


def test_what_a_server_said_before_it_ended_comes_first(tmp_path: Path) -> None:
    """Its end may be seen before its answer, which says why."""
    failure = wire.ToAgent(failure=wire.Failure(exit_code=2, message="no such profile"))
    server = Late([failure])

    def died() -> None:
        server.found_dead.set()
        raise InternalError("it died")

    with (
        connected(tmp_path, server) as (simulation, _),
        pytest.raises(UsageError, match="no such profile"),
    ):
        simulation.join(HELLO, died, limit_s=10)


def test_a_broken_connection_is_told_from_an_end(tmp_path: Path) -> None:
    """What is missing then must not pass for nothing."""
    with connected(tmp_path, Played([WELCOME], breaks=grpc.StatusCode.INTERNAL)) as (simulation, _):
        simulation.join(HELLO, lambda: None, limit_s=10)
        assert simulation.next_message() is None
        with pytest.raises(InternalError, match="fell over"):
            simulation.check_orderly_end()


def test_a_server_that_ends_before_its_welcome_has_refused_nobody(tmp_path: Path) -> None:
    """Which is what a kill at that moment looks like."""
    with (
        connected(tmp_path, Played([], breaks=grpc.StatusCode.UNAVAILABLE)) as (simulation, _),
        pytest.raises(InternalError, match="broke: fell over"),
    ):
        simulation.join(HELLO, lambda: None, limit_s=10)


def test_nobody_there(tmp_path: Path) -> None:
    """A server that is not running is found out within the limit."""
    simulation = Simulation(Endpoint.of(f"unix:{tmp_path}/nobody", "x"), Channels())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="No server answers"):
        simulation.join(HELLO, lambda: None, limit_s=0.2)
    simulation.close()


def test_a_server_that_died(tmp_path: Path) -> None:
    """Whoever started the server finds out before the limit."""

    def died() -> None:
        raise InternalError("it died")

    simulation = Simulation(Endpoint.of(f"unix:{tmp_path}/nobody", "x"), Channels())  # type: ignore[arg-type]
    with pytest.raises(InternalError, match="it died"):
        simulation.join(HELLO, died, limit_s=10)
    simulation.close()


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    """It is given up after the time for that, with what is in the way; one that waits for other
    agents is waited for longer.
    """
    endpoint = Endpoint.of(f"unix:{tmp_path}/nobody", "secret")
    simulation = Simulation(endpoint, Channels())  # type: ignore[arg-type]
    with pytest.raises(Unreachable, match=r"waited 0\.1 s\): .*connect"):
        simulation.join(HELLO, lambda: None, limit_s=60, reach_limit_s=0.1)
    simulation.close()
