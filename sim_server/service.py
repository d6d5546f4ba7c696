"""gRPC between the host agents and the simulation.

One thread per agent reads its stream into one queue; one thread simulates. The order in which
messages come out of the queue does not matter: virtual time is ordered in the engine.
"""

from __future__ import annotations

import json
import queue
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent import futures
from contextlib import ExitStack
from dataclasses import asdict

import grpc
from google.protobuf.message import DecodeError

from sim_server import simulation_pb2 as messages
from sim_server._engine import MalformedInput
from sim_server.access.agents import AgentLink, Agents, gone_text
from sim_server.access.endpoint import (
    MAX_REQUEST_BYTES,
    MAX_RESPONSE_BYTES,
    TOKEN_KEY,
    Endpoint,
)
from sim_server.access.hosts import SIGN_OF_LIFE_S, heard, pass_on, proven_aside, silent
from sim_server.access.offer import PROTOCOL_VERSION, Offer, Refused, refused
from sim_server.access.tokens import same_token
from sim_server.errors import (
    Deadlock,
    InternalError,
    PhantoraError,
    RankFailed,
    garbled_rank,
)
from sim_server.kernels import MeasuringTimer
from sim_server.log.run_log import Reply
from sim_server.log.steady import Steady
from sim_server.processes.signals import uninterrupted
from sim_server.settings import Settings
from sim_server.simulation import Simulation
from sim_server.timings import open_measuring_timer

MAX_AGENTS = 1024
"""Of one run. Each takes two threads here."""
# Ranks hold each other up all the time, mostly not for long, and agents need not know. Who is told
# in vain is told later the next time, until an agent has found a rank that waits outside.
FIRST_STALLED_S = 0.002
LAST_STALLED_S = 0.032
# An agent that has not left by then reads no more (assumed enough).
FAREWELL_S = 2.0
# For what is still on its way when the run is over (assumed).
_STOP_S = 5.0
_STOP_AT_ONCE_S = 1.0  # of those that can be reached
# After a failure agents stop their ranks, say Finish and take the rest of the data; an agent that
# has not done so by then is not waited for (assumed enough).
FINISH_LIMIT_S = 300.0
# An agent says Hello at once; a stream without one is closed (assumed enough).
HELLO_LIMIT_S = 10.0
# Strangers may hold that many connections beside the agents; one that carries no call is closed.
_OTHER_CONNECTIONS = 64
_IDLE_CONNECTION_MS = 10_000
_HANDSHAKE_LIMIT_MS = 10_000
_SERVICE = messages.DESCRIPTOR.services_by_name["Simulation"].full_name


Inbound = tuple[AgentLink, messages.FromAgent | None]


class SimulationService:
    """Accepts agents and passes their messages to the simulating thread."""

    def __init__(self, token: str, inbox: queue.SimpleQueue[Inbound]) -> None:
        self._token = token
        self._inbox = inbox

    def attach(
        self, request_iterator: Iterator[messages.FromAgent], context: grpc.ServicerContext
    ) -> Iterator[messages.ToAgent]:
        """Serve one agent until the run has ended or the agent has gone."""
        shown = [value for key, value in context.invocation_metadata() if key == TOKEN_KEY]
        if len(shown) != 1 or not same_token(shown[0], self._token):
            context.abort(
                grpc.StatusCode.UNAUTHENTICATED,
                "wrong token; give the server's with --token-file or PHANTORA_TOKEN",
            )
        link = AgentLink()
        threading.Thread(target=self._read, args=(link, request_iterator), daemon=True).start()
        if not link.has_spoken.wait(HELLO_LIMIT_S):
            context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"no Hello within {HELLO_LIMIT_S:g} s")
        while (message := link.outbox.get()) is not None:
            if isinstance(message, Refused):
                context.abort(message.code, str(message))
            yield message

    def _read(self, link: AgentLink, request_iterator: Iterator[messages.FromAgent]) -> None:
        try:
            for message in request_iterator:
                heard(link, message)
                self._inbox.put((link, message))
                link.has_spoken.set()
        except grpc.RpcError:
            pass  # the agent has gone, which the next lines say
        self._inbox.put((link, None))
        link.has_spoken.set()


class Run:
    """The simulating side: one run from the last Hello to the last data chunk."""

    def __init__(self, inbox: queue.SimpleQueue[Inbound], agents: int, offer: Offer) -> None:
        self._inbox = inbox
        self._agents = Agents(agents)
        self._offer = offer
        self._simulation: Simulation | None = None
        self._measuring: MeasuringTimer | None = None
        self._opened = ExitStack()
        self.has_lost_agent = False
        """One has gone without a word, and so does not take its leave."""
        self._has_ended = threading.Event()
        self._iterations = 0
        self._told_s = 0.0
        """When the agents were told that virtual time passes, or when it began to."""
        self._until_steady = False
        self._told_steady: Steady | None = None
        self._is_over = False
        """The iteration time has settled, and that is the end of the run."""
        self._taken = Counter[int]()
        self._stalled = messages.Stalled()
        self._told_stalled = messages.Stalled()
        self._stalled_since_s = 0.0
        """Since when the same ranks have held it up, or when the agents were told last."""
        self._patience_s = FIRST_STALLED_S
        self._exit_code = 0
        self._finish_by_s: float | None = None
        """After a failure, when those that have not finished are left alone."""

    def serve(self) -> int:
        """Simulate until every agent has finished or gone. Returns the exit code of the run."""
        try:
            while not self._is_finished():
                for link, message in self._take():
                    self._receive(link, message)
                for link in silent(self._agents):
                    self.has_lost_agent = True
                    self._leave(link, in_silence=True)
                if self._simulation is not None and not (self._exit_code or self._is_over):
                    self._advance(self._simulation)
            self._send_data()
            self._await_farewell()
        except PhantoraError as error:
            self._fail(error)
        except MalformedInput as error:  # by what was kept until the end
            self._fail(_garbled_rank(error))
        except Exception:  # every fault of ours must reach the user; the process ends with it
            self._fail(InternalError(f"the simulation failed\n{traceback.format_exc()}"))
        finally:
            self._has_ended.set()
            self._opened.close()
            for link in self._agents.links:
                link.outbox.put(None)
        return self._exit_code

    def _is_finished(self) -> bool:
        """Whether every agent has finished or gone, or is not waited for any more."""
        if not self._agents.are_complete:
            return False
        is_late = self._finish_by_s is not None and time.monotonic() > self._finish_by_s
        return is_late or all(link.finished for link in self._agents.links)

    def _await_farewell(self) -> None:
        """The agent leaves once it has the data. A server that left first could break the
        connection under what is still on its way.
        """
        try:
            while not self._agents.links[0].gone:
                self._receive(*self._inbox.get(timeout=FAREWELL_S))
        except queue.Empty:
            return

    def _take(self) -> list[Inbound]:
        """All messages that are there; waits for one, but not past when the agents are to be told
        whom the simulation waits for.
        """
        wait_s = None
        if self._finish_by_s is not None:
            wait_s = max(self._finish_by_s - time.monotonic(), 0.0)
        elif not self._is_over and self._has_news_of_stall():
            wait_s = max(self._stalled_since_s + self._patience_s - time.monotonic(), 0.0)
        if len(self._agents.links) > 1:
            wait_s = min(SIGN_OF_LIFE_S, SIGN_OF_LIFE_S if wait_s is None else wait_s)
        try:
            taken = [self._inbox.get(timeout=wait_s)]
        except queue.Empty:
            return []
        while not self._inbox.empty():
            taken.append(self._inbox.get())
        return taken

    def _receive(self, link: AgentLink, message: messages.FromAgent | None) -> None:
        is_over = bool(self._exit_code) or self._is_over
        if link not in self._agents.links:
            self._join(link, message)
        elif message is None:
            self._leave(link)
        elif not is_over and (fault := link.fault(message)):
            self._cut_off(link, fault)
        elif message.HasField("finish"):
            link.finished = True
        elif is_over and message.HasField("parcels"):
            pass_on(self._agents, link, message.parcels)  # the last that ranks print, for one
        elif self._simulation is not None and not is_over:
            try:
                self._apply(self._simulation, link, message)
            except PhantoraError as error:
                self._fail(error)
            except MalformedInput as error:
                self._fail(_garbled_rank(error))

    def _apply(self, simulation: Simulation, link: AgentLink, message: messages.FromAgent) -> None:
        content = message.WhichOneof("message")
        if content == "parcels":
            pass_on(self._agents, link, message.parcels)
        elif content == "batch":
            for records in message.batch.ranks:
                self._taken[records.rank] += len(records.cells)
                simulation.feed(records.rank, records.cells, records.host_clock_ns)
                simulation.check_whole(records.rank)
        elif content == "ranks_aside":
            held_up_by = simulation.held_up_by()
            for aside in proven_aside(self._agents, link, message.ranks_aside, held_up_by):
                for rank in aside.ranks:
                    wakeups = aside.wakeups - self._measurements()
                    simulation.set_aside(
                        rank,
                        wakeups,
                        proven=rank in aside.proven,
                        awaits_values=rank in aside.await_values,
                    )
            self._patience_s = FIRST_STALLED_S
            self._stalled_since_s = time.monotonic()
            # The agent has crossed it off: if it holds the others up still or again, that is news.
            self._told_stalled = messages.Stalled()
        elif content == "rank_exited":
            rank, status = message.rank_exited.rank, message.rank_exited.status
            simulation.exited(rank, status)
            if status != 0:
                raise simulation.failure_of(rank, status)

    def _join(self, link: AgentLink, message: messages.FromAgent | None) -> None:
        if message is None or link.finished:
            link.outbox.put(None)
            return
        try:
            self._agents.join(link, message, self._offer)
        except Refused as why:
            link.finished = True
            link.outbox.put(why)
            return
        if self._agents.are_complete:
            assert self._agents.settings is not None
            self._begin(self._agents.settings, link.hello.wanted.until_steady)

    def _begin(self, settings: Settings, until_steady: bool) -> None:
        self._until_steady = until_steady
        timer = None
        if settings.executor is not None:
            opened = open_measuring_timer(settings, self._tell_measuring)
            timer, self._measuring = self._opened.enter_context(opened)
        self._simulation = Simulation(settings, timer, until_steady, self._tell_time)
        welcome = messages.Welcome(protocol_version=PROTOCOL_VERSION)
        self._broadcast(messages.ToAgent(welcome=welcome))
        if len(self._agents.links) > 1:
            threading.Thread(target=self._show_life, daemon=True).start()

    def _show_life(self) -> None:
        while not self._has_ended.wait(SIGN_OF_LIFE_S):
            self._broadcast(messages.ToAgent(parcels=messages.Parcels()))

    def _leave(self, link: AgentLink, *, in_silence: bool = False) -> None:
        """Its stream has ended. The others would wait for its ranks for ever."""
        link.gone = True
        if not self._agents.are_complete:
            self._agents.leave(link)
            link.outbox.put(None)
        elif not link.finished:
            link.finished = True
            self._fail(RankFailed(gone_text(link.name, in_silence=in_silence)))

    def _cut_off(self, link: AgentLink, fault: str) -> None:
        """It says what no agent says. Nothing of it is believed from here on."""
        link.finished = True
        if self._agents.are_complete:
            self._fail(InternalError(f"{link.name} {fault}; the run cannot go on"))
            link.outbox.put(None)
        else:
            self._agents.leave(link)
            link.outbox.put(refused(f"this agent {fault}"))

    def _advance(self, simulation: Simulation) -> None:
        self._told_s = time.monotonic()
        try:
            self._answer(simulation.advance())
        except PhantoraError as error:
            self._fail(error)
            return
        except MalformedInput as error:
            self._fail(_garbled_rank(error))
            return
        for name, content in simulation.pieces():
            chunk = messages.DataChunk(name=name, content=content)
            self._agents.links[0].outbox.put(messages.ToAgent(data_chunk=chunk))
        self._tell_stalled(simulation)
        self._tell_progress(simulation)

    def _tell_stalled(self, simulation: Simulation) -> None:
        """Whom the simulation waits for, once it has waited a little for the same ranks: mostly
        they are about to ask. Also while messages come that do not change it, as of clocks.
        """
        held_up_by = list(simulation.held_up_by())
        stalled = messages.Stalled(
            held_up_by=held_up_by,
            taken=[self._taken[rank] for rank in held_up_by],
            wakeups=simulation.wakeups + self._measurements(),
            alarmed=simulation.alarmed(),
            helpers_run=simulation.helpers_run(),
        )
        now_s = time.monotonic()
        if stalled.held_up_by != self._stalled.held_up_by:
            self._stalled_since_s = now_s
        self._stalled = stalled
        if self._has_news_of_stall() and now_s >= self._stalled_since_s + self._patience_s:
            self._told_stalled = stalled
            self._stalled_since_s = now_s
            self._patience_s = min(2 * self._patience_s, LAST_STALLED_S)
            self._broadcast(messages.ToAgent(stalled=stalled))

    def _has_news_of_stall(self) -> bool:
        held_up_by, told = self._stalled.held_up_by, self._told_stalled
        return held_up_by != told.held_up_by or bool(held_up_by and self._stalled != told)

    def _tell_progress(self, simulation: Simulation) -> None:
        iterations, steady = simulation.iterations, simulation.steady
        if iterations == self._iterations and steady == self._told_steady:
            return
        self._iterations = iterations
        progress = messages.Progress(
            iterations=iterations, virtual_time_ns=simulation.virtual_time_ns
        )
        if steady is not None:
            self._told_steady = steady
            self._is_over = self._until_steady
            progress.steady.CopyFrom(messages.Steady(**asdict(steady)))
        self._broadcast(messages.ToAgent(progress=progress))

    def _measurements(self) -> int:
        """How often the real GPU was asked. Each may wake a rank (see `wakeups`): meanwhile no rank
        is answered, and one may sleep because of it, say on a lock of a thread that asked us.
        """
        return 0 if self._measuring is None else self._measuring.asked

    def _tell_time(self) -> None:
        """Ranks wait while virtual time passes, which may take long and is no stall."""
        now_s = time.monotonic()
        if now_s >= self._told_s + SIGN_OF_LIFE_S:
            self._told_s = now_s
            self._tell_at_work()

    def _tell_measuring(self) -> None:
        """No rank makes progress meanwhile, which is no stall."""
        if self._measuring is not None:
            self._tell_at_work(self._measurements())

    def _tell_at_work(self, measuring: int = 0) -> None:
        if self._simulation is None:
            return
        progress = messages.Progress(
            iterations=self._iterations,
            virtual_time_ns=self._simulation.virtual_time_ns,
            measuring=measuring,
        )
        self._broadcast(messages.ToAgent(progress=progress))

    def _answer(self, replies: list[Reply]) -> None:
        answers: dict[AgentLink, messages.Answers] = {}
        for reply in replies:
            link = self._agents.by_rank[reply.rank]
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
        if self._finish_by_s is None:
            self._finish_by_s = time.monotonic() + FINISH_LIMIT_S
        tables = json.dumps(error.tables) if isinstance(error, Deadlock) else ""
        detail = error.detail if isinstance(error, RankFailed) else ""
        failure = messages.Failure(
            exit_code=error.exit_code, message=str(error), tables=tables, detail=detail
        )
        if isinstance(error, RankFailed) and error.rank is not None:
            failure.rank, failure.status = error.rank, error.status
        self._broadcast(messages.ToAgent(failure=failure))

    def _send_data(self) -> None:
        """What is left of the data file. All of it goes to the first agent, which writes it."""
        assert self._simulation is not None
        if self._measuring is not None:
            content = json.dumps(self._measuring.to_dict(), sort_keys=True).encode()
            chunk = messages.DataChunk(name="measuring.json", content=content)
            self._agents.links[0].outbox.put(messages.ToAgent(data_chunk=chunk))
        last: messages.DataChunk | None = None
        for name, content in self._simulation.files():
            if last is not None:
                self._agents.links[0].outbox.put(messages.ToAgent(data_chunk=last))
            last = messages.DataChunk(name=name, content=content)
        assert last is not None
        last.last = True
        self._agents.links[0].outbox.put(messages.ToAgent(data_chunk=last))

    def _broadcast(self, message: messages.ToAgent) -> None:
        for link in self._agents.links:
            link.outbox.put(message)


def _garbled_rank(error: MalformedInput) -> RankFailed:
    return garbled_rank("A rank has written records that cannot be:", str(error))


def serve(endpoint: Endpoint, agents: int, offer: Offer) -> int:
    """Serve one run of so many agents. Returns the run's exit code.

    Raises: UsageError when the address cannot be used.
    """
    inbox: queue.SimpleQueue[Inbound] = queue.SimpleQueue()
    server = _make_server(endpoint, agents)
    handler = grpc.stream_stream_rpc_method_handler(
        SimulationService(endpoint.token, inbox).attach,
        request_deserializer=_read_message,
        response_serializer=messages.ToAgent.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(_SERVICE, {"Attach": handler}),)
    )
    grace_s: float | None = None  # after an interrupt
    with ExitStack() as stack:
        with uninterrupted():  # the end of a server that is half started would never come
            endpoint.bind(server)
            server.start()
            stack.callback(lambda: server.stop(grace_s).wait())
        run = Run(inbox, agents, offer)
        exit_code = run.serve()
        grace_s = _STOP_AT_ONCE_S if run.has_lost_agent else _STOP_S
        return exit_code


def _make_server(endpoint: Endpoint, agents: int) -> grpc.Server:
    connections = agents + _OTHER_CONNECTIONS
    return grpc.server(
        futures.ThreadPoolExecutor(max_workers=connections),
        maximum_concurrent_rpcs=connections,
        options=[
            *endpoint.keepalive(),
            ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
            ("grpc.max_send_message_length", MAX_RESPONSE_BYTES),
            ("grpc.max_concurrent_streams", _OTHER_CONNECTIONS),
            ("grpc.max_allowed_incoming_connections", connections),
            ("grpc.max_connection_idle_ms", _IDLE_CONNECTION_MS),
            ("grpc.server_handshake_timeout_ms", _HANDSHAKE_LIMIT_MS),
            # Nobody else can listen at the same address, and so take the agents' token.
            ("grpc.so_reuseport", 0),
        ],
    )


def _read_message(content: bytes) -> messages.FromAgent:
    """An agent that sends what is none is told so, as of any other message that it may not send;
    gRPC would write a traceback.
    """
    try:
        return messages.FromAgent.FromString(content)
    except DecodeError:
        return messages.FromAgent()
