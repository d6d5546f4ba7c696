"""gRPC between the host agents and the simulation.

One thread per agent reads its stream into one queue; one thread simulates. The order in which
messages come out of the queue does not matter: virtual time is ordered in the engine.
"""

from __future__ import annotations

import json
import queue
import threading
import traceback
from collections.abc import Iterator
from concurrent import futures
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field

import grpc

from sim_server import simulation_pb2 as messages
from sim_server import simulation_pb2_grpc as rpc
from sim_server.errors import Deadlock, InternalError, PhantoraError, RankFailed
from sim_server.kernels import MeasuringTimer
from sim_server.records import PROTOCOL_VERSION
from sim_server.run_log import Reply
from sim_server.settings import Settings
from sim_server.simulation import Simulation
from sim_server.timings import open_measuring_timer

# Ranks hold each other up all the time, mostly not for long, and agents need not know. Who is told
# in vain is told later the next time, until an agent has found a rank that waits outside.
FIRST_STALLED_S = 0.002
LAST_STALLED_S = 0.032
# An agent that has not left by then reads no more (assumed enough).
FAREWELL_S = 2.0
TOKEN_KEY = "phantora-token"
# Records of many iterations may come in one batch.
MAX_MESSAGE_BYTES = 1 << 30
CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
]


@dataclass(eq=False)
class AgentLink:
    """One attached agent: its ranks and what is to be sent to it. `None` in the outbox ends the
    stream.
    """

    hello: messages.Hello
    outbox: queue.SimpleQueue[messages.ToAgent | None] = field(default_factory=queue.SimpleQueue)
    finished: bool = False
    gone: bool = False


Inbound = tuple[AgentLink, messages.FromAgent | None]


class SimulationService(rpc.SimulationServicer):
    """Accepts agents and passes their messages to the simulating thread."""

    def __init__(self, token: str, inbox: queue.SimpleQueue[Inbound]) -> None:
        self._token = token
        self._inbox = inbox

    def Attach(  # noqa: N802 - the name of the RPC
        self, request_iterator: Iterator[messages.FromAgent], context: grpc.ServicerContext
    ) -> Iterator[messages.ToAgent]:
        """Serve one agent until the run has ended or the agent has gone."""
        if dict(context.invocation_metadata()).get(TOKEN_KEY) != self._token:
            context.abort(
                grpc.StatusCode.UNAUTHENTICATED, "wrong token; pass the server's with --token"
            )
        hello = next(request_iterator).hello
        if hello.protocol_version != PROTOCOL_VERSION:
            context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"the agent speaks protocol version {hello.protocol_version}, this server "
                f"{PROTOCOL_VERSION}; install the same version of phantora on both",
            )
        link = AgentLink(hello)
        threading.Thread(target=self._read, args=(link, request_iterator), daemon=True).start()
        while (message := link.outbox.get()) is not None:
            yield message

    def _read(self, link: AgentLink, request_iterator: Iterator[messages.FromAgent]) -> None:
        self._inbox.put((link, messages.FromAgent(hello=link.hello)))
        try:
            for message in request_iterator:
                self._inbox.put((link, message))
        except grpc.RpcError:
            pass  # the agent has gone, which the next line says
        self._inbox.put((link, None))


class Run:
    """The simulating side: one run from the last Hello to the last data chunk."""

    def __init__(self, inbox: queue.SimpleQueue[Inbound], agents: int) -> None:
        self._inbox = inbox
        self._agents = agents
        self._links: list[AgentLink] = []
        self._link_of_rank: dict[int, AgentLink] = {}
        self._simulation: Simulation | None = None
        self._measuring: MeasuringTimer | None = None
        self._opened = ExitStack()
        self._iterations = 0
        self._until_steady = False
        self._is_steady = False
        self._is_over = False
        """The iteration time has settled, and that is the end of the run."""
        self._stalled = messages.Stalled()
        self._told_stalled = messages.Stalled()
        self._patience_s = FIRST_STALLED_S
        self._exit_code = 0

    def serve(self) -> int:
        """Simulate until every agent has finished or gone. Returns the exit code of the run."""
        try:
            while len(self._links) < self._agents or not all(link.finished for link in self._links):
                for link, message in self._take():
                    self._receive(link, message)
                if self._simulation is not None and not (self._exit_code or self._is_over):
                    self._advance(self._simulation)
            self._send_data()
            self._await_farewell()
        except PhantoraError as error:
            self._fail(error)
        except Exception:  # every fault of ours must reach the user; the process ends with it
            self._fail(InternalError(f"the simulation failed\n{traceback.format_exc()}"))
        finally:
            self._opened.close()
            for link in self._links:
                link.outbox.put(None)
        return self._exit_code

    def _await_farewell(self) -> None:
        """The agent leaves once it has the data. A server that left first could break the
        connection under what is still on its way.
        """
        try:
            while not self._links[0].gone:
                self._receive(*self._inbox.get(timeout=FAREWELL_S))
        except queue.Empty:
            return

    def _take(self) -> list[Inbound]:
        """All messages that are there; waits for one, and tells the agents if that takes long."""
        held_up_by, told = self._stalled.held_up_by, self._told_stalled
        news = held_up_by != told.held_up_by or (held_up_by and self._stalled != told)
        try:
            taken = [self._inbox.get(timeout=self._patience_s if news else None)]
        except queue.Empty:
            self._told_stalled = self._stalled
            self._patience_s = min(2 * self._patience_s, LAST_STALLED_S)
            self._broadcast(messages.ToAgent(stalled=self._stalled))
            return []
        while not self._inbox.empty():
            taken.append(self._inbox.get())
        return taken

    def _receive(self, link: AgentLink, message: messages.FromAgent | None) -> None:
        if message is None:
            link.gone = True
            if not link.finished:
                link.finished = True
                ranks = ", ".join(map(str, link.hello.local_ranks))
                self._fail(RankFailed(f"the host agent of ranks {ranks} has gone"))
            return
        content = message.WhichOneof("message")
        if content == "hello":
            self._join(link)
        elif content == "finish":
            link.finished = True
        elif self._exit_code or self._is_over:
            return
        elif content == "batch":
            assert self._simulation is not None
            try:
                for records in message.batch.ranks:
                    self._simulation.feed(records.rank, records.cells, records.host_clock_ns)
            except PhantoraError as error:
                self._fail(error)
        elif content == "ranks_aside":
            assert self._simulation is not None
            aside = message.ranks_aside
            for rank in aside.ranks:
                stirs = aside.stirs - self._measurements()
                self._simulation.set_aside(rank, stirs, rank in aside.proven)
            self._patience_s = FIRST_STALLED_S
            # The agent has crossed it off: if it holds the others up still or again, that is news.
            self._told_stalled = messages.Stalled()
        elif content == "rank_exited":
            assert self._simulation is not None
            rank, status = message.rank_exited.rank, message.rank_exited.status
            self._simulation.exited(rank, status)
            if status != 0:
                self._fail(self._simulation.failure_of(rank, status))

    def _join(self, link: AgentLink) -> None:
        self._links.append(link)
        for rank in link.hello.local_ranks:
            self._link_of_rank[rank] = link
        if len(self._links) == self._agents:
            self._until_steady = link.hello.until_steady
            settings = Settings.from_json(link.hello.settings)
            timer = None
            if settings.executor is not None:
                opened = open_measuring_timer(settings, self._tell_measuring)
                timer, self._measuring = self._opened.enter_context(opened)
            self._simulation = Simulation(settings, timer, self._until_steady)
            welcome = messages.Welcome(protocol_version=PROTOCOL_VERSION)
            self._broadcast(messages.ToAgent(welcome=welcome))

    def _advance(self, simulation: Simulation) -> None:
        try:
            self._answer(simulation.advance())
        except PhantoraError as error:
            self._fail(error)
            return
        for name, content in simulation.pieces():
            chunk = messages.DataChunk(name=name, content=content)
            self._links[0].outbox.put(messages.ToAgent(data_chunk=chunk))
        self._stalled = messages.Stalled(
            held_up_by=simulation.held_up_by(),
            stirs=simulation.stirs + self._measurements(),
            alarmed=simulation.alarmed(),
            roused=simulation.roused(),
        )
        self._tell_progress(simulation)

    def _tell_progress(self, simulation: Simulation) -> None:
        iterations, steady = simulation.log.iterations(), simulation.steady
        if iterations == self._iterations and (steady is None or self._is_steady):
            return
        self._iterations = iterations
        progress = messages.Progress(
            iterations=iterations, virtual_time_ns=simulation.virtual_time_ns
        )
        if steady is not None:
            self._is_steady = True
            self._is_over = self._until_steady
            progress.steady.CopyFrom(messages.Steady(**asdict(steady)))
        self._broadcast(messages.ToAgent(progress=progress))

    def _measurements(self) -> int:
        """How often the real GPU was asked. Each counts as a stir: meanwhile nobody is answered,
        and a rank may sleep for that, say for a lock of a thread that asked us.
        """
        return 0 if self._measuring is None else self._measuring.asked

    def _tell_measuring(self) -> None:
        """Nobody gets on meanwhile, which is no stall."""
        if self._simulation is None or self._measuring is None:
            return
        progress = messages.Progress(
            iterations=self._iterations,
            virtual_time_ns=self._simulation.virtual_time_ns,
            measuring=self._measurements(),
        )
        self._broadcast(messages.ToAgent(progress=progress))

    def _answer(self, replies: list[Reply]) -> None:
        answers: dict[AgentLink, messages.Answers] = {}
        for reply in replies:
            link = self._link_of_rank[reply.rank]
            answers.setdefault(link, messages.Answers()).answers.add(
                rank=reply.rank,
                slot=reply.slot,
                status=reply.status,
                time_ns=reply.time_ns,
                value=reply.value,
                payload=reply.payload,
            )
        for link, batch in answers.items():
            link.outbox.put(messages.ToAgent(answers=batch))

    def _fail(self, error: PhantoraError) -> None:
        """Tell the agents once; they stop the ranks and finish, and what was simulated is still
        sent.
        """
        self._exit_code = self._exit_code or error.exit_code
        tables = json.dumps(error.tables) if isinstance(error, Deadlock) else ""
        detail = error.detail if isinstance(error, RankFailed) else ""
        failure = messages.Failure(
            exit_code=error.exit_code, message=str(error), tables=tables, detail=detail
        )
        self._broadcast(messages.ToAgent(failure=failure))

    def _send_data(self) -> None:
        """What is left of the data file. All of it goes to the first agent, which writes it."""
        assert self._simulation is not None
        if self._measuring is not None:
            content = json.dumps(self._measuring.to_dict(), sort_keys=True).encode()
            chunk = messages.DataChunk(name="measuring.json", content=content)
            self._links[0].outbox.put(messages.ToAgent(data_chunk=chunk))
        last: messages.DataChunk | None = None
        for name, content in self._simulation.files():
            if last is not None:
                self._links[0].outbox.put(messages.ToAgent(data_chunk=last))
            last = messages.DataChunk(name=name, content=content)
        assert last is not None
        last.last = True
        self._links[0].outbox.put(messages.ToAgent(data_chunk=last))

    def _broadcast(self, message: messages.ToAgent) -> None:
        for link in self._links:
            link.outbox.put(message)


def serve(listen: str, token: str, agents: int) -> int:
    """Serve one run on `listen` (unix:PATH or HOST:PORT). Returns the run's exit code.

    Raises: PhantoraError when the address cannot be used.
    """
    inbox: queue.SimpleQueue[Inbound] = queue.SimpleQueue()
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=agents + 1), options=CHANNEL_OPTIONS
    )
    rpc.add_SimulationServicer_to_server(SimulationService(token, inbox), server)
    try:
        port = server.add_insecure_port(listen)
    except RuntimeError as error:
        raise PhantoraError(f"cannot listen on {listen}: {error}") from error
    if port == 0:
        raise PhantoraError(f"cannot listen on {listen}")
    server.start()
    try:
        return Run(inbox, agents).serve()
    finally:
        server.stop(grace=5).wait()
