"""Synchronisations per second through host agent and server: ranks that launch and wait, in turn.

    python benchmarks/synchronisations.py [--ranks 1 2 8] [--seconds 5] [--json]

The agent's loop, its channels and a server of its own are the real ones; the ranks are one thread
each of a further process that writes records into the channels, a launch of a kernel and a wait for
its stream, and does nothing else. Core time is that of agent and server, per synchronisation.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
from measurement import Results, parser

from phantora_py._channel import ChannelSet, TestRank
from phantora_py.agent.agent import HostAgent
from phantora_py.agent.memory import MemoryWatch
from phantora_py.agent.output import RankOutput
from phantora_py.agent.server import START_LIMIT_S, Server, new_token_of
from phantora_py.agent.simulation import Simulation
from phantora_py.agent.stall import StallWatch
from phantora_py.agent.states import RankState
from phantora_py.launch.interrupts import Interrupts
from phantora_py.launch.rundir import RunDirectory
from sim_server import simulation_pb2 as wire
from sim_server.access import Endpoint
from sim_server.access.offer import Offer, make_hello
from sim_server.cluster import load_cluster
from sim_server.gpu import load_gpu
from sim_server.records import RecordKind, WaitKind
from sim_server.records.writer import record, signature, wait
from sim_server.settings import Settings

GEMM = {
    **{"kind": "gemm", "library": "cublasLt", "m": 1024, "n": 1024, "k": 64, "batch": 1},
    **{"transa": "N", "transb": "N", "lda": 1024, "ldb": 1024, "ldc": 1024, "epilogue": "none"},
    **dict.fromkeys("abcd", "bf16"),
    **{"compute": "f32", "beta": False},
}
GAP_NS = 1000
REPLY_LIMIT_MS = 30_000


def play_rank(directory: str, rank: int, until_s: float, counts: list[int]) -> None:
    """One rank: launches and waits until the time is over, then leaves."""
    channel = TestRank(directory, rank)
    channel.push(signature(1, GEMM), 0, ring=False)
    launch = record(RecordKind.KERNEL, id=1, host_gap_ns=GAP_NS)
    turn = launch + wait(WaitKind.STREAM, host_gap_ns=GAP_NS)
    clock_ns = 0
    while time.monotonic() < until_s:
        # The clock is seen before the records are: it must not be later than the first of them.
        channel.push(turn, clock_ns + GAP_NS, ring=True)
        reply = channel.wait_reply(0, REPLY_LIMIT_MS)
        assert reply is not None, "no answer came"
        clock_ns = reply[1]
        counts[rank] += 1
    channel.push(record(RecordKind.EXIT), clock_ns, ring=True)


def play(directory: str, ranks: int, seconds: float, told: Connection) -> None:
    """The process of all ranks; tells how often they have synchronised."""
    counts = [0] * ranks
    until_s = time.monotonic() + seconds
    threads = [
        threading.Thread(target=play_rank, args=(directory, rank, until_s, counts))
        for rank in range(ranks)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told.send(sum(counts))


class Ranks:
    """The processes that the agent watches: one for all ranks, which ends for all at once."""

    def __init__(self, ranks: int, process: multiprocessing.process.BaseProcess) -> None:
        self._process = process
        assert process.pid is not None
        self.pids = dict.fromkeys(range(ranks), process.pid)

    def take_ended(self) -> list[tuple[int, int]]:
        """Rank and status of those that have ended since the last call."""
        if self._process.is_alive():
            return []
        ended = [(rank, self._process.exitcode or 0) for rank in self.pids]
        self.pids = {}
        return ended

    def stop(self) -> None:
        """Ends them."""
        self._process.kill()


class Nothing:
    """Takes what a run leaves and keeps none of it."""

    def write(self, name: str, content: bytes) -> None:
        """A member of the data file."""

    def check(self) -> None:
        """All is well."""

    def ranks_up(self, count: int) -> None:
        """So many run."""

    def ranks(self, states: Sequence[RankState]) -> None:
        """What they do."""

    def update(self, progress: wire.Progress) -> None:
        """The simulation has come this far."""

    def said(self, rank: int, descriptor: int, data: bytes) -> None:
        """What a rank prints."""

    def rest(self) -> None:
        """That is all for the moment."""

    def note(self, message: str) -> None:
        """No rank makes progress."""


def measure(ranks: int, seconds: float) -> tuple[float, float]:
    """Synchronisations per second, and core microseconds that agent and server take for one."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name, ExitStack() as stack:
        directory = RunDirectory(Path(name))
        settings = Settings(ranks, 1, ranks, load_cluster("h100"), load_gpu("h100"))
        address = f"unix:{directory.server_socket}"
        endpoint = Endpoint.of(address, new_token_of(directory))
        offer = Offer(settings.cluster)
        server = stack.enter_context(Server(directory, offer, os.environ, endpoint))
        channels = ChannelSet(name, list(range(ranks)))
        stack.callback(channels.close)
        simulation = Simulation(endpoint, channels)
        stack.callback(simulation.close)
        simulation.join(make_hello(settings, range(ranks)), server.check, START_LIMIT_S)
        context = multiprocessing.get_context("spawn")
        told, tells = context.Pipe(duplex=False)
        process = context.Process(target=play, args=(name, ranks, seconds, tells))
        process.start()
        served = next(child for child in psutil.Process().children() if child.pid != process.pid)
        before_s = sum(served.cpu_times()[:2]) + time.process_time()
        outcome = HostAgent(
            channels,
            simulation,
            Ranks(ranks, process),  # type: ignore[arg-type]
            Nothing(),
            Nothing(),
            output=RankOutput(Path(name), (), (), (), Nothing(), Nothing()),
            memory=MemoryWatch(None, {}),
            stall=StallWatch(Path(name), None),
            interrupts=Interrupts(),
        ).run()
        spent_s = sum(served.cpu_times()[:2]) + time.process_time() - before_s
        assert outcome.exit_code == 0, outcome.message
        count = told.recv()
        return count / seconds, spent_s / count * 1e6


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 8])
    options.add_argument("--seconds", type=float, default=5.0)
    chosen = options.parse_args()
    columns = ("ranks", "per second", "agent and server, core us each")
    results = Results("Synchronisations", columns)
    for ranks in chosen.ranks:
        results.add(str(ranks), *measure(ranks, chosen.seconds))
    results.show(chosen.json)


if __name__ == "__main__":
    main()
