"""The server over a real gRPC connection: an agent that a test plays, with ranks that it plays."""

from __future__ import annotations

import json
import queue
import random
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from engine_harness import Program
from played_ranks import PlayedRanks, Script, make_settings, training, whole_files

from sim_server import simulation_pb2 as wire
from sim_server.access.agents import AgentLink
from sim_server.access.endpoint import TOKEN_KEY, Endpoint
from sim_server.access.offer import PROTOCOL_VERSION, Offer, make_hello
from sim_server.cluster import load_cluster
from sim_server.log.history import KERNEL_SPAN
from sim_server.log.run_log import Reply
from sim_server.records import RecordKind
from sim_server.service import Inbound, Run, serve
from sim_server.simulation import Simulation
from sim_server.simulation_pb2_grpc import SimulationStub
from sim_server.timing_cache import TimingCache

TOKEN = "secret"
OFFER = Offer(load_cluster("h100"))
LIMIT_S = 30.0


@dataclass
class Ending:
    """What an agent was told."""

    failure: wire.Failure | None = None
    pieces: dict[str, bytes] = field(default_factory=dict)
    iterations: int = 0
    progress_ns: list[int] = field(default_factory=list)
    """How far virtual time had come each time that it was told."""

    @property
    def files(self) -> dict[str, Any]:
        """What it was sent of the data file."""
        return whole_files(self.pieces.items())


class PlayedAgent:
    """An agent with some of the ranks of a run."""

    def __init__(
        self,
        address: str,
        ranks: int,
        local_ranks: Sequence[int] | None = None,
        token: str = TOKEN,
        version: int = PROTOCOL_VERSION,
    ) -> None:
        self._local = list(range(ranks) if local_ranks is None else local_ranks)
        self._outgoing: queue.SimpleQueue[wire.FromAgent | None] = queue.SimpleQueue()
        self._channel = grpc.insecure_channel(address)
        self._ending = Ending()
        self._has_all_data = False
        hello = make_hello(make_settings(ranks), self._local)
        hello.protocol_version = version
        self._send(hello=hello)
        self.messages = SimulationStub(self._channel).Attach(
            iter(self._outgoing.get, None),
            metadata=((TOKEN_KEY, token),),
            wait_for_ready=True,
            timeout=LIMIT_S,
        )

    def _send(self, **message: object) -> None:
        self._outgoing.put(wire.FromAgent(**message))  # type: ignore[arg-type]

    def play(self, scripts: Sequence[Program], rng: random.Random | None = None) -> Ending:
        """Plays its ranks' scripts to the end of the run, as the host agent does."""
        assert next(self.messages).welcome.protocol_version == PROTOCOL_VERSION
        ranks = PlayedRanks(scripts)
        while self._ending.failure is None and not all(ranks.gone[rank] for rank in self._local):
            if not self._deliver(ranks, rng):
                self._take(next(self.messages), ranks)
        self._send(finish=wire.Finish())
        try:
            while not self._has_all_data:
                self._take(next(self.messages), ranks)
        except StopIteration:
            pass
        except grpc.RpcError as error:
            # The server waits only for the one that takes the data, before it closes connections.
            if 0 in self._local or error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
        self.close()
        return self._ending

    def _deliver(self, ranks: PlayedRanks, rng: random.Random | None) -> bool:
        """Sends what some ranks have to say. False if none has anything."""
        batch, ended = wire.Batch(), []
        order = list(self._local)
        if rng is not None:
            rng.shuffle(order)
        for rank in order:
            cells = ranks.take(rank, None if rng is None else rng.randint(1, 4))
            if cells:
                batch.ranks.add(rank=rank, host_clock_ns=ranks.clocks_ns[rank], cells=cells)
            if ranks.leaves(rank):
                ended.append(rank)
        if batch.ranks:
            self._send(batch=batch)
        for rank in ended:
            self._send(rank_exited=wire.RankExited(rank=rank, status=0))
        return bool(batch.ranks or ended)

    def _take(self, message: wire.ToAgent, ranks: PlayedRanks) -> None:
        kind = message.WhichOneof("message")
        if kind == "answers":
            for answer in message.answers.answers:
                ranks.answer(answer.rank, answer.time_ns)
        elif kind == "failure":
            self._ending.failure = message.failure
        elif kind == "progress":
            self._ending.iterations = message.progress.iterations
            self._ending.progress_ns.append(message.progress.virtual_time_ns)
        elif kind == "data_chunk":
            chunk = message.data_chunk
            assert chunk.name not in self._ending.pieces
            self._ending.pieces[chunk.name] = chunk.content
            self._has_all_data = chunk.last

    def close(self) -> None:
        """Goes, whether or not the run is over."""
        self._outgoing.put(None)
        self._channel.close()


class Served:
    """A server in a thread of its own. `exit_code`: once it has ended."""

    def __init__(self, address: str, agents: int) -> None:
        self.address = address
        self._exit_code: int | None = None
        self._thread = threading.Thread(target=self._serve, args=(agents,), daemon=True)
        self._thread.start()

    def _serve(self, agents: int) -> None:
        self._exit_code = serve(Endpoint.of(self.address, TOKEN), agents, OFFER)

    @property
    def exit_code(self) -> int | None:
        self._thread.join(LIMIT_S)
        return self._exit_code


@contextmanager
def serving(directory: Path, agents: int = 1) -> Iterator[Served]:
    """A server; the run must have ended when the test has."""
    served = Served(f"unix:{directory}/socket", agents)
    yield served
    assert served.exit_code is not None, "the server still serves"


def test_a_run(tmp_path: Path) -> None:
    """The agent is told answers and progress, gets every file, and the server ends with 0."""
    with serving(tmp_path) as served:
        ending = PlayedAgent(served.address, 2).play([training(rank, 2) for rank in range(2)])
    assert ending.failure is None
    assert ending.iterations == 3
    assert {"spans", "operations", "digest", "records/rank-1"} <= ending.files.keys()
    assert ending.files["exits.json"] == {"0": 0, "1": 0}
    assert served.exit_code == 0


def test_a_wrong_token_is_turned_away(tmp_path: Path) -> None:
    """It says what to do; the server goes on waiting for an agent with the right one."""
    with serving(tmp_path) as served:
        with pytest.raises(grpc.RpcError) as caught:
            next(PlayedAgent(served.address, 1, token="guess").messages)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert (
            caught.value.details()
            == "wrong token; give the server's with --token-file or PHANTORA_TOKEN"
        )
        PlayedAgent(served.address, 1).play([Script()])
    assert served.exit_code == 0


def test_another_protocol_version_is_turned_away(tmp_path: Path) -> None:
    """Both versions are named."""
    with serving(tmp_path) as served:
        with pytest.raises(grpc.RpcError) as caught:
            next(PlayedAgent(served.address, 1, version=PROTOCOL_VERSION + 1).messages)
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert caught.value.details() == (
            f"the agent speaks protocol version {PROTOCOL_VERSION + 1}, this server "
            f"{PROTOCOL_VERSION}; install the same version of phantora on both"
        )
        PlayedAgent(served.address, 1).play([Script()])


def fail(directory: Path, scripts: Sequence[Script], exit_code: int) -> Ending:
    """A run that the server ends with `exit_code`."""
    with serving(directory) as served:
        ending = PlayedAgent(served.address, len(scripts)).play(scripts)
    assert ending.failure is not None
    assert ending.failure.exit_code == exit_code
    assert served.exit_code == exit_code
    return ending


def test_a_deadlock(tmp_path: Path) -> None:
    """Exit code 5; what had happened before is in the data all the same."""
    scripts = [Script().join(9, 2, rank).site(4, f"train.py:{7 + rank} main") for rank in range(2)]
    scripts[0].gemm().all_reduce(0, count=10, site=4).synchronise(site=4)
    ending = fail(tmp_path, scripts, 5)
    assert ending.failure is not None
    title = "communicator 1 (ranks 0-1), AllReduce number 0 of 10 x float32"
    assert title in ending.failure.message
    (table,) = json.loads(ending.failure.tables)
    assert table["title"] == title
    assert [row["ranks"] for row in table["rows"]] == [[0], [1]]
    assert len(ending.files["timings"]) == 1
    assert KERNEL_SPAN in ending.files["spans"]["kind"]


def test_mismatched_collectives(tmp_path: Path) -> None:
    """Exit code 5, naming both ranks and lines."""
    scripts = [Script().join(9, 2, rank).site(4, f"train.py:{7 + rank} main") for rank in range(2)]
    for rank, script in enumerate(scripts):
        script.all_reduce(0, count=10 + rank, site=4).synchronise()
    ending = fail(tmp_path, scripts, 5)
    assert ending.failure is not None
    for part in ("rank 0 issued", "train.py:7 main", "rank 1 issued", "train.py:8 main"):
        assert part in ending.failure.message


def test_an_unsupported_call(tmp_path: Path) -> None:
    """Exit code 3, while another rank would go on."""
    call = {"library": "cudart", "symbol": "cudaGraphLaunch", "detail": ""}
    scripts = [Script().join(9, 2, rank) for rank in range(2)]
    scripts[1].announce(RecordKind.UNSUPPORTED, json.dumps(call).encode())
    ending = fail(tmp_path, scripts, 3)
    assert ending.failure is not None
    assert ending.failure.message.startswith(
        "rank 1 called cudaGraphLaunch of cudart, which is not"
    )


def test_a_signature_that_no_model_knows(tmp_path: Path) -> None:
    """Exit code 4: it must not end as a silent zero, and the message names rank and signature."""
    script = Script().announce(RecordKind.SIGNATURE, b'{"kind": "nonsense"}', id=1)
    ending = fail(tmp_path, [script], 4)
    assert ending.failure is not None
    for part in ("rank 0", "{'kind': 'nonsense'} is none of docs/records.md"):
        assert part in ending.failure.message


def test_a_fault_of_ours_is_told_with_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 70, and the ranks are not left waiting."""

    def broken(_: Simulation) -> list[Reply]:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(Simulation, "advance", broken)
    ending = fail(tmp_path, [Script().synchronise()], 70)
    assert ending.failure is not None
    for part in ("Traceback", "in broken", "ZeroDivisionError: planted"):
        assert part in ending.failure.message


def test_an_agent_that_vanishes_ends_the_run_of_the_others(tmp_path: Path) -> None:
    """They would wait for its ranks for ever."""
    scripts = [Script().join(9, 2, rank).synchronise() for rank in range(2)]
    with serving(tmp_path, agents=2) as served:
        gone = PlayedAgent(served.address, 2, [1])
        stays = PlayedAgent(served.address, 2, [0])
        assert next(gone.messages).HasField("welcome")
        gone.close()
        ending = stays.play(scripts)
    assert ending.failure is not None
    assert (ending.failure.exit_code, ending.failure.message) == (
        4,
        "the host agent of ranks 1 has gone",
    )
    assert served.exit_code == 4


@pytest.mark.parametrize("seed", range(3))
def test_delivery_and_number_of_agents_do_not_show(tmp_path: Path, seed: int) -> None:
    """One agent that sends everything at once and two that send it in pieces: one digest."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    scripts = [training(rank, 4) for rank in range(4)]
    with serving(tmp_path / "one") as served:
        whole = PlayedAgent(served.address, 4).play(scripts)
    endings: list[Ending] = []
    with serving(tmp_path / "two", agents=2) as served:
        agents = [PlayedAgent(served.address, 4, local) for local in ([0, 3], [1, 2])]
        threads = [
            threading.Thread(
                target=lambda agent=agent: endings.append(agent.play(scripts, random.Random(seed)))
            )
            for agent in agents
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)
    (cut,) = (ending for ending in endings if ending.pieces)
    assert cut.files["digest"] == whole.files["digest"]
    for rank in range(4):
        assert cut.files[f"records/rank-{rank}"] == whole.files[f"records/rank-{rank}"]


class Bursts:
    """An inbox whose messages come in bursts that the server takes at once."""

    def __init__(self) -> None:
        self._bursts: queue.SimpleQueue[list[Inbound]] = queue.SimpleQueue()
        self._burst: list[Inbound] = []

    def put(self, link: AgentLink, *burst: wire.FromAgent) -> None:
        self._bursts.put([(link, message) for message in burst])

    def get(self, timeout: float | None = None) -> Inbound:
        if not self._burst:
            self._burst = self._bursts.get(timeout=timeout)
        return self._burst.pop(0)

    def empty(self) -> bool:
        return not self._burst


class Chatter(Bursts):
    """While the server waits for no longer than it likes, a message comes that changes nothing."""

    def __init__(self, link: AgentLink) -> None:
        super().__init__()
        self._link = link
        self.left = 1000

    def get(self, timeout: float | None = None) -> Inbound:
        with suppress(queue.Empty):
            return super().get(timeout if timeout is None or self.left == 0 else 0)
        assert timeout is not None
        if timeout == 0 or self.left == 0:
            raise queue.Empty
        time.sleep(min(timeout, 0.001))
        self.left -= 1
        return self._link, wire.FromAgent(batch=wire.Batch())


THE_END = [
    *(wire.FromAgent(rank_exited=wire.RankExited(rank=rank)) for rank in range(2)),
    wire.FromAgent(finish=wire.Finish()),
]


def next_told(link: AgentLink) -> str | None:
    """The kind of the next message to an agent that is no piece of the data file."""
    while (message := link.outbox.get(timeout=LIMIT_S)) is not None:
        assert isinstance(message, wire.ToAgent)
        kind = message.WhichOneof("message")
        if kind != "data_chunk":
            return str(kind)
    return None


def test_whom_the_simulation_waits_for_is_told_amid_chatter() -> None:
    """Clocks of ranks that poll come all the time; the agent must hear of the one that does not."""
    ranks = PlayedRanks([Script().gemm(gap=10).synchronise(), Script(streams=0)])
    link, hello = AgentLink(), make_hello(make_settings(2), [0, 1])
    inbox: Any = Chatter(link)
    waits = wire.Batch()
    waits.ranks.add(rank=0, host_clock_ns=10, cells=ranks.take(0))
    server = threading.Thread(target=Run(inbox, 1, OFFER).serve, daemon=True)
    server.start()
    inbox.put(link, wire.FromAgent(hello=hello), wire.FromAgent(batch=waits))
    assert [next_told(link) for _ in range(2)] == ["welcome", "stalled"]
    assert inbox.left > 0
    inbox.left = 0
    inbox.put(link, *THE_END)
    server.join(LIMIT_S)
    assert not server.is_alive()


def test_a_rank_that_holds_others_up_again_is_told_again() -> None:
    """Set aside, a rank is off the agent's list: if it is back at once, the agent must hear it."""
    ranks = PlayedRanks([Script().gemm(gap=10).synchronise(), Script(streams=0).resume()])
    inbox: Any = Bursts()
    link, hello = AgentLink(), make_hello(make_settings(2), [0, 1])
    waits, resumes = wire.Batch(), wire.Batch()
    waits.ranks.add(rank=0, host_clock_ns=10, cells=ranks.take(0))
    resumes.ranks.add(rank=1, host_clock_ns=0, cells=ranks.take(1))
    server = threading.Thread(target=Run(inbox, 1, OFFER).serve, daemon=True)
    server.start()
    inbox.put(link, wire.FromAgent(hello=hello), wire.FromAgent(batch=waits))
    told = [next_told(link) for _ in range(2)]
    inbox.put(
        link,
        wire.FromAgent(ranks_aside=wire.RanksAside(ranks=[1])),
        wire.FromAgent(batch=resumes),
    )
    told += [next_told(link) for _ in range(2)]
    assert told == ["welcome", "stalled", "answers", "stalled"]
    inbox.put(link, *THE_END)
    server.join(LIMIT_S)
    assert not server.is_alive()


def test_what_was_found_asleep_before_a_measurement_is_void(tmp_path: Path) -> None:
    """A rank may have slept for an answer that the server was too busy to give."""
    fake = Path(__file__).parent.parent / "profile" / "fake_executor.py"
    executor = {"command": [sys.executable, str(fake)], "origin": "a test"}
    offer = Offer(load_cluster("h100"), tmp_path / "cache", executor)
    ranks = PlayedRanks([Script().gemm(gap=10).synchronise(), Script(streams=0)])
    inbox: Any = Bursts()
    link, hello = AgentLink(), make_hello(make_settings(2), [0, 1], cuda="13.2")
    waits = wire.Batch()
    waits.ranks.add(rank=0, host_clock_ns=10, cells=ranks.take(0))
    server = threading.Thread(target=Run(inbox, 1, offer).serve, daemon=True)
    server.start()

    def told(kind: str) -> wire.ToAgent:
        while (message := link.outbox.get(timeout=LIMIT_S)) is not None:
            assert isinstance(message, wire.ToAgent)
            if message.WhichOneof("message") == kind:
                return message
        raise AssertionError(f"no {kind}")

    inbox.put(link, wire.FromAgent(hello=hello), wire.FromAgent(batch=waits))
    assert told("progress").progress.measuring == 1
    wakeups = told("stalled").stalled.wakeups
    assert wakeups == 1
    inbox.put(link, wire.FromAgent(ranks_aside=wire.RanksAside(ranks=[1], wakeups=wakeups - 1)))
    assert list(told("stalled").stalled.held_up_by) == [1]
    inbox.put(link, wire.FromAgent(ranks_aside=wire.RanksAside(ranks=[1], wakeups=wakeups)))
    assert told("answers").answers.answers[0].rank == 0
    inbox.put(link, *THE_END)
    server.join(LIMIT_S)
    assert not server.is_alive()
    with TimingCache(tmp_path / "cache") as made:
        assert len(made.entries()) == 1


def test_time_that_passes_while_ranks_wait_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What many ranks send may take long to simulate; the agent must not take that for a stall."""
    monkeypatch.setattr("sim_server.service.SIGN_OF_LIFE_S", 0.0)
    with serving(tmp_path) as served:
        ending = PlayedAgent(served.address, 2).play([training(rank, 2) for rank in range(2)])
    assert len(ending.progress_ns) > 3 * ending.iterations
    assert ending.progress_ns == sorted(ending.progress_ns)
