"""Hostile connections to a server: each is refused with one sentence, and nothing hangs.

amounts.py says how many random ones are tried of each kind.
"""

from __future__ import annotations

import queue
import random
import socket
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from amounts import SEED, inputs
from attacked_server import LIMIT_S, OFFER, TOKEN, Agent, attacked, honest_hello
from free_ports import free_port
from hypothesis import given, settings
from hypothesis import strategies as st

from sim_server import service
from sim_server import simulation_pb2 as wire
from sim_server.access.agents import AgentLink, Agents
from sim_server.access.endpoint import MAX_REQUEST_BYTES, TOKEN_KEY
from sim_server.access.offer import Offer, Refused, check_hello
from sim_server.service import Inbound, Run

Code = grpc.StatusCode
HUGE = 2**32 - 1
EXAMPLES = inputs(50, one_in=10)


@pytest.mark.parametrize(
    "metadata",
    [
        [(TOKEN_KEY, "guess")],
        [(TOKEN_KEY, "")],
        [("other", TOKEN)],
        [(TOKEN_KEY, TOKEN), (TOKEN_KEY, TOKEN)],
        [(TOKEN_KEY, TOKEN[:-1])],
    ],
)
def test_who_lacks_the_token_is_not_heard(tmp_path: Path, metadata: list[tuple[str, str]]) -> None:
    """Whatever it says; and it is told where the token belongs."""
    with attacked(tmp_path) as server:
        stranger = Agent(server.endpoint, *metadata).hello()
        sentence = "wrong token; give the server's with --token-file or PHANTORA_TOKEN"
        assert stranger.refusal() == (Code.UNAUTHENTICATED, sentence)
        server.serves_a_run()


def lie(**fields: Any) -> wire.Hello:
    """A Hello that lies in these fields of what it wants, or of its own."""
    hello = honest_hello()
    for name, value in fields.items():
        if name == "local_ranks":
            hello.local_ranks[:] = value
        elif name == "nccl_environment":
            hello.wanted.nccl_environment.update(value)
        else:
            setattr(
                hello if name.endswith("version") and hasattr(hello, name) else hello.wanted,
                name,
                value,
            )
    return hello


LIES: dict[str, tuple[wire.Hello, str]] = {
    "protocol": (lie(protocol_version=HUGE), "install the same version of phantora on both"),
    "records": (lie(records_version=HUGE), "speaks records version 4294967295"),
    "no ranks": (lie(local_ranks=[]), "names no rank of the agent"),
    "a rank twice": (lie(local_ranks=[0, 1, 1]), "names a rank of the agent twice"),
    "a rank too many": (lie(local_ranks=[0, 1, 2]), "names rank 2; ranks of this run are 0 to 1"),
    "too few ranks": (lie(local_ranks=[1]), "ranks 0 would have no host"),
    "no rank at all": (lie(ranks=0), "asks for 0 ranks; it is 1 to 65536"),
    "huge run": (lie(ranks=HUGE), "asks for 4294967295 ranks; it is 1 to 65536"),
    "huge nodes": (lie(nodes=HUGE), "asks for 4294967295 nodes"),
    "huge node": (lie(gpus_per_node=HUGE), "asks for 4294967295 gpus_per_node"),
    "contradiction": (lie(nodes=2), "2 ranks are not 2 nodes with 2 ranks each"),
    "crowded node": (lie(gpus_per_node=64, ranks=64), "64 ranks per node do not fit"),
    "cluster": (lie(cluster="h200", simulated=b""), "simulates cluster 'h100' and the run asks "),
    "long name": (lie(cluster="x" * 5000), "'cluster' of the Hello has more than 4096 characters"),
    "line break": (lie(cluster="a\nb", simulated=b""), "asks for 'a\\nb'"),
    "other cluster": (lie(simulated=b"x" * 32), "cluster 'h100' is not the same on both sides"),
    "iteration": (lie(iteration="nvtx:\n\0" * 9999), "'iteration' of the Hello has more than"),
    "no iteration": (lie(iteration="\n"), "asks for '\\n', which --iteration does not take"),
    "variable": (lie(nccl_environment={"PATH": "/tmp"}), "'PATH', which is none of NCCL's"),
    "variables": (
        lie(nccl_environment={f"NCCL_{number}": "" for number in range(2000)}),
        "more than 1000 NCCL_* variables",
    ),
    "value": (lie(nccl_environment={"NCCL_ALGO": "x" * 5000}), "more than 4096 characters"),
    "no NIC": (lie(nccl_environment={"NCCL_IB_HCA": "eth"}), "NCCL_IB_HCA=eth leaves no NIC"),
    "NCCL": (lie(nccl_version=7), "says that NCCL has version 7"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_hello_that_lies_is_turned_away(tmp_path: Path, name: str) -> None:
    """In any of its fields; the next agent is served as if nothing had happened."""
    hello, sentence = LIES[name]
    with attacked(tmp_path) as server:
        code, told = Agent(server.endpoint).hello(hello).refusal()
        assert code in (Code.INVALID_ARGUMENT, Code.FAILED_PRECONDITION)
        assert sentence in told
        assert "\n" not in told
        server.serves_a_run()


@pytest.mark.parametrize(
    "first",
    [
        wire.FromAgent(batch=wire.Batch()),
        wire.FromAgent(finish=wire.Finish()),
        wire.FromAgent(rank_exited=wire.RankExited(rank=HUGE)),
        wire.FromAgent(),
        b"\xff" * 100,
    ],
)
def test_nothing_comes_before_hello(tmp_path: Path, first: wire.FromAgent | bytes) -> None:
    """Not even bytes that are no message."""
    with attacked(tmp_path) as server:
        sentence = "the first message of an agent is its Hello"
        agent = Agent(server.endpoint).say(first).hello()
        assert agent.refusal() == (Code.INVALID_ARGUMENT, sentence)
        server.serves_a_run()


def test_a_message_has_a_limit(tmp_path: Path) -> None:
    """It is not kept in memory before."""
    with attacked(tmp_path) as server:
        code, told = Agent(server.endpoint).say(bytes(MAX_REQUEST_BYTES + 1)).refusal()
        assert code is Code.RESOURCE_EXHAUSTED
        assert "larger than max" in told
        server.serves_a_run()


def test_who_says_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream without a Hello ends within the limit."""
    monkeypatch.setattr(service, "HELLO_LIMIT_S", 0.2)
    with attacked(tmp_path) as server:
        assert Agent(server.endpoint).refusal() == (Code.DEADLINE_EXCEEDED, "no Hello within 0.2 s")
        server.serves_a_run()


def test_streams_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those beyond it are turned away at once, and an agent is served when they have gone."""
    monkeypatch.setattr(service, "HELLO_LIMIT_S", 2.0)
    monkeypatch.setattr(service, "_IDLE_CONNECTION_MS", 500)
    with attacked(tmp_path) as server:
        first = Agent(server.endpoint)
        time.sleep(1.0)
        many = [Agent(server.endpoint, is_patient=False) for _ in range(150)]
        refusals = [agent.refusal()[0] for agent in (first, *many)]
        at_once = {Code.RESOURCE_EXHAUSTED, Code.UNAVAILABLE}  # as a call, as a connection
        assert sum(code in at_once for code in refusals) >= 50
        assert set(refusals) <= {*at_once, Code.DEADLINE_EXCEEDED}
        server.serves_a_run()


def test_an_agent_too_many(tmp_path: Path) -> None:
    """A run that has its agents takes no other, and does not notice it."""
    with attacked(tmp_path) as server:
        agent = Agent(server.endpoint).hello()
        assert next(agent.stream).HasField("welcome")
        sentence = "the run of this server has its agent; start a server for each run"
        assert Agent(server.endpoint).hello().refusal() == (Code.RESOURCE_EXHAUSTED, sentence)
        assert agent.finish(0, 1)
        assert server.exit_code == 0


def test_agents_go_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that somebody has, another wish, and ranks that nobody has are turned away."""
    has_come = threading.Event()
    join = Agents.join

    def tell(self: Agents, link: AgentLink, first: wire.FromAgent, offer: Offer) -> None:
        join(self, link, first, offer)
        has_come.set()

    monkeypatch.setattr(Agents, "join", tell)
    with attacked(tmp_path, agents=2) as server:
        first = Agent(server.endpoint).hello(honest_hello(4, [0, 1]))
        other = honest_hello(4, [2, 3])
        other.wanted.until_steady = True
        assert has_come.wait(LIMIT_S)
        attempts = {
            "another agent has ranks 1;": honest_hello(4, [1, 2, 3]),
            "the agents of this run ask for different things": other,
            "ranks 3 would have no host": honest_hello(4, [2]),
        }
        for sentence, hello in attempts.items():
            assert Agent(server.endpoint).hello(hello).refusal()[1].startswith(sentence)
        second = Agent(server.endpoint).hello(honest_hello(4, [2, 3]))
        assert next(second.stream).HasField("welcome")
        assert next(first.stream).HasField("welcome")
        second.end_ranks(2, 3)
        assert first.finish(0, 1)
        assert server.exit_code == 0


def test_who_leaves_before_the_run_can_be_replaced(tmp_path: Path) -> None:
    """Its ranks are free again."""
    with attacked(tmp_path, agents=2) as server:
        Agent(server.endpoint).hello(honest_hello(2, [0])).close()
        liar = Agent(server.endpoint).hello(honest_hello(2, [0])).say(b"\xff")
        assert liar.refusal()[1] == "this agent sent a message that cannot be read"
        first = Agent(server.endpoint).hello(honest_hello(2, [0]))
        second = Agent(server.endpoint).hello(honest_hello(2, [1]))
        assert next(second.stream).HasField("welcome")
        second.end_ranks(1)
        assert next(first.stream).HasField("welcome")
        assert first.finish(0)


def batch(**fields: Any) -> wire.FromAgent:
    """Records of one rank."""
    return wire.FromAgent(batch=wire.Batch(ranks=[wire.RankRecords(**fields)]))


EXIT = wire.FromAgent(rank_exited=wire.RankExited(rank=0))
SPOKEN: dict[str, tuple[list[wire.FromAgent | bytes], str]] = {
    "hello": ([wire.FromAgent(hello=honest_hello())], "said Hello twice"),
    "nothing": ([wire.FromAgent()], "sent a message that cannot be read"),
    "garbage": ([b"\xff" * 9], "sent a message that cannot be read"),
    "records": ([batch(rank=1)], "sent records of rank 1, which is not its own"),
    "far records": ([batch(rank=HUGE)], "sent records of rank 4294967295, which is not its own"),
    "part": ([batch(cells=b"x" * 63)], "sent part of a record of rank 0"),
    "clock": ([batch(host_clock_ns=2**64 - 1)], "set the clock of rank 0 to 18446744073709551615"),
    "aside": (
        [wire.FromAgent(ranks_aside=wire.RanksAside(ranks=[0, 1]))],
        "set rank 1, which is not its own aside",
    ),
    "proven": (
        [wire.FromAgent(ranks_aside=wire.RanksAside(proven=[HUGE]))],
        "set rank 4294967295, which is not its own aside",
    ),
    "exit": (
        [wire.FromAgent(rank_exited=wire.RankExited(rank=1))],
        "told the end of rank 1, which is not its own",
    ),
    "exits": ([EXIT, EXIT], "told the end of rank 0 twice"),
    "status": (
        [wire.FromAgent(rank_exited=wire.RankExited(status=-(2**31)))],
        "told that rank 0 ended with status -2147483648",
    ),
    "finish": ([wire.FromAgent(finish=wire.Finish())], "said Finish without the end of ranks 0"),
    "after all": (
        [EXIT, wire.FromAgent(finish=wire.Finish()), EXIT],
        "went on after its Finish",
    ),
}


@pytest.mark.parametrize("name", SPOKEN)
def test_an_agent_that_lies_later_ends_the_run_for_all(tmp_path: Path, name: str) -> None:
    """Both are told who said what, in one sentence; the server ends with 70."""
    spoken, sentence = SPOKEN[name]
    with attacked(tmp_path, agents=2) as server:
        liar = Agent(server.endpoint).hello(honest_hello(2, [0]))
        honest = Agent(server.endpoint).hello(honest_hello(2, [1]))
        assert next(liar.stream).HasField("welcome")
        liar.say(*spoken)
        for agent in (liar, honest):
            failure = agent.failure()
            assert failure.exit_code == 70
            assert failure.message.startswith(f"the host agent of ranks 0 {sentence}")
            assert failure.message.endswith("; the run cannot go on")
        honest.say(wire.FromAgent(finish=wire.Finish()))
        assert server.exit_code == 70


def test_who_never_finishes_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failure the server ends, though an agent holds its stream open and says nothing."""
    monkeypatch.setattr(service, "FINISH_LIMIT_S", 0.5)
    with attacked(tmp_path, agents=2) as server:
        silent = Agent(server.endpoint).hello(honest_hello(2, [0]))
        gone = Agent(server.endpoint).hello(honest_hello(2, [1]))
        assert next(silent.stream).HasField("welcome")
        gone.close()
        assert silent.failure().exit_code == 4
        assert server.exit_code == 4


# Connections below gRPC

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def _frame(kind: int, flags: int, stream: int, payload: bytes, length: int | None = None) -> bytes:
    size = len(payload) if length is None else length
    return size.to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


RAW: dict[str, bytes] = {
    "nothing": b"",
    "half a preface": PREFACE[:10],
    "preface": PREFACE,
    "HTTP/1": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": bytes.fromhex("1603010200010001fc0303") + b"x" * 200,
    "huge frame": PREFACE + _frame(4, 0, 0, b"", length=2**24 - 1),
    "headers that are none": PREFACE + _frame(4, 0, 0, b"") + _frame(1, 4, 1, b"\xff" * 300),
    "endless headers": PREFACE
    + _frame(4, 0, 0, b"")
    + _frame(1, 0, 1, b"")
    + 99 * _frame(9, 0, 1, b""),
    "pings": PREFACE + _frame(4, 0, 0, b"") + 5000 * _frame(6, 0, 0, b"x" * 8),
    "resets": PREFACE + _frame(4, 0, 0, b"") + 500 * _frame(3, 0, 1, b"x" * 4),
}


def _connect(port: int) -> socket.socket:
    deadline_s = time.monotonic() + LIMIT_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
        except ConnectionRefusedError:
            assert time.monotonic() < deadline_s
            time.sleep(0.02)


def _send(connection: socket.socket, content: bytes) -> None:
    with suppress(OSError):  # the server may have had enough of it
        connection.sendall(content)


def test_bytes_that_are_no_call_do_no_harm(tmp_path: Path) -> None:
    """A run is served while connections of all these kinds are held open."""
    port = free_port()
    random.seed(SEED)
    with attacked(tmp_path, address=f"127.0.0.1:{port}") as server, ExitStack() as stack:
        for content in RAW.values():
            _send(stack.enter_context(_connect(port)), content)
        for _ in range(EXAMPLES):
            start = random.choice([b"", PREFACE, PREFACE + _frame(4, 0, 0, b"")])
            with _connect(port) as connection:
                _send(connection, start + random.randbytes(random.randrange(2000)))
        server.serves_a_run()


def test_idle_connections_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More connections than the server takes, which say nothing, keep no agent out for long."""
    monkeypatch.setattr(service, "_HANDSHAKE_LIMIT_MS", 500)
    monkeypatch.setattr(service, "_IDLE_CONNECTION_MS", 500)
    port = free_port()
    with attacked(tmp_path, address=f"127.0.0.1:{port}") as server, ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(_connect(port))
        time.sleep(2.0)
        server.serves_a_run()


# Random messages

UNSIGNED = st.one_of(st.integers(0, 3), st.integers(0, HUGE))
TEXT = st.text(max_size=20)
WANTED = st.builds(
    wire.Wanted,
    ranks=UNSIGNED,
    nodes=UNSIGNED,
    gpus_per_node=UNSIGNED,
    cluster=TEXT,
    simulated=st.one_of(st.just(honest_hello().wanted.simulated), st.binary(max_size=40)),
    nccl_environment=st.dictionaries(TEXT.map("NCCL_{}".format), TEXT, max_size=3),
    nccl_version=st.one_of(st.just(23007), UNSIGNED),
    cuda=TEXT,
    libraries=TEXT,
    until_steady=st.booleans(),
)
HELLO = st.builds(
    wire.Hello,
    protocol_version=st.one_of(st.just(honest_hello().protocol_version), UNSIGNED),
    records_version=st.one_of(st.just(honest_hello().records_version), UNSIGNED),
    local_ranks=st.lists(UNSIGNED, max_size=4),
    wanted=WANTED,
)
RECORDS = st.builds(wire.RankRecords, rank=UNSIGNED, host_clock_ns=st.integers(0, 2**64 - 1))
MESSAGE = st.one_of(
    st.builds(wire.FromAgent, hello=HELLO),
    st.builds(wire.FromAgent, batch=st.builds(wire.Batch, ranks=st.lists(RECORDS, max_size=3))),
    st.builds(
        wire.FromAgent,
        ranks_aside=st.builds(
            wire.RanksAside,
            ranks=st.lists(UNSIGNED, max_size=3),
            wakeups=st.integers(0, 2**64 - 1),
            proven=st.lists(UNSIGNED, max_size=3),
        ),
    ),
    st.builds(
        wire.FromAgent,
        rank_exited=st.builds(
            wire.RankExited, rank=UNSIGNED, status=st.integers(-(2**31), 2**31 - 1)
        ),
    ),
    st.builds(wire.FromAgent, finish=st.just(wire.Finish())),
    st.just(wire.FromAgent()),
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(hello=HELLO)
def test_any_hello_is_taken_or_refused(hello: wire.Hello) -> None:
    """Nothing else is raised."""
    with suppress(Refused):
        check_hello(hello, OFFER)


@settings(max_examples=EXAMPLES, deadline=None)
@given(spoken=st.lists(MESSAGE, max_size=6))
def test_any_messages_end_in_a_sentence(spoken: list[wire.FromAgent]) -> None:
    """Whatever an agent says after its Hello, the run ends, and no traceback is told."""
    link = AgentLink()
    inbox: queue.SimpleQueue[Inbound] = queue.SimpleQueue()
    for message in (wire.FromAgent(hello=honest_hello()), *spoken, None):
        inbox.put((link, message))
    Run(inbox, 1, OFFER).serve()
    while isinstance(told := link.outbox.get(timeout=LIMIT_S), wire.ToAgent):
        assert "Traceback" not in told.failure.message
