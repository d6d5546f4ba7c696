"""The agents of one run: who has joined, and what each may say.

An agent has the token, so it is no stranger; but what it says of ranks that are not its own, or at
the wrong time, would corrupt the run of the others without a word.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Collection
from dataclasses import dataclass, field

import grpc

from sim_server import simulation_pb2 as messages
from sim_server.access.offer import Offer, Refused, check_hello, refused
from sim_server.deadlock import ranges_text
from sim_server.records import CELL_BYTES
from sim_server.settings import Settings

# The engine's latest time (kLatest in csrc/protocol/nanoseconds.h).
_LATEST_NS = 1 << 60
# What a process can end with: minus a signal, or an exit code.
_STATUSES = range(-128, 256)
OF_ITS_RANKS = ("printed", "kept", "memory_bytes")
"""Parcels that tell of an agent's own ranks, for the one that keeps the data file."""


@dataclass(eq=False)
class AgentLink:
    """One agent's stream: its ranks, and what is to be sent to it. `None` in the outbox ends the
    stream, `Refused` does so with an error status.
    """

    hello: messages.Hello = field(default_factory=messages.Hello)
    ranks: frozenset[int] = frozenset()
    outbox: queue.SimpleQueue[messages.ToAgent | Refused | None] = field(
        default_factory=queue.SimpleQueue
    )
    has_spoken: threading.Event = field(default_factory=threading.Event)
    """Its first message has come, or its end."""
    exited: set[int] = field(default_factory=set)
    parcels: int = 0
    """So many were passed on to it."""
    quiet: messages.RanksAside | None = None
    """What it found when it last looked, if no parcel has come from it or gone to it since."""
    heard_s: float | None = None
    """When it last said something; None before the ranks of a run on several hosts are started."""
    finished: bool = False
    gone: bool = False

    @property
    def name(self) -> str:
        """As messages have it."""
        return agent_name(self.hello.host, self.ranks)

    def fault(self, message: messages.FromAgent) -> str:
        """What an agent that has joined may not say, as the second half of a sentence; empty if it
        may. Notes ranks that have ended.
        """
        content = message.WhichOneof("message")
        if content is None:
            return "sent a message that cannot be read"
        if content == "hello":
            return "said Hello twice"
        if self.finished:
            return "went on after its Finish"
        fault: str = getattr(self, f"_{content}_fault")(getattr(message, content))
        return fault

    def _batch_fault(self, batch: messages.Batch) -> str:
        for records in batch.ranks:
            if fault := self._foreign([records.rank]):
                return f"sent records of {fault}"
            if len(records.cells) % CELL_BYTES:
                return f"sent part of a record of rank {records.rank}"
            if records.host_clock_ns > _LATEST_NS:
                return f"set the clock of rank {records.rank} to {records.host_clock_ns} ns"
        return ""

    def _ranks_aside_fault(self, aside: messages.RanksAside) -> str:
        fault = self._foreign([*aside.ranks, *aside.proven, *aside.await_values])
        return fault and f"set {fault} aside"

    def _parcels_fault(self, parcels: messages.Parcels) -> str:
        told = [one for one in parcels.parcels if one.WhichOneof("content") in OF_ITS_RANKS]
        fault = self._foreign([one.rank for one in told])
        return fault and f"sent output or memory of {fault}"

    def _rank_exited_fault(self, exit_: messages.RankExited) -> str:
        if fault := self._foreign([exit_.rank]):
            return f"told the end of {fault}"
        if exit_.rank in self.exited:
            return f"told the end of rank {exit_.rank} twice"
        if exit_.status not in _STATUSES:
            return f"told that rank {exit_.rank} ended with status {exit_.status}"
        self.exited.add(exit_.rank)
        return ""

    def _finish_fault(self, _: messages.Finish) -> str:
        running = sorted(self.ranks - self.exited)
        return f"said Finish without the end of ranks {ranges_text(running)}" if running else ""

    def _foreign(self, ranks: list[int]) -> str:
        return next(
            (f"rank {one}, which is not its own" for one in ranks if one not in self.ranks), ""
        )


def agent_name(host: str, ranks: Collection[int]) -> str:
    """As messages have it. `host`: empty if the run has one."""
    where = f" on {host}" if host else ""
    return f"the host agent of ranks {ranges_text(ranks)}{where}"


def gone_text(name: str, *, in_silence: bool) -> str:
    """How a run ends that has lost an agent. `in_silence`: nothing has come of it for some time."""
    return f"{name} has gone{' without a word' if in_silence else ''}"


class Agents:
    """Those that have joined a run, in the order of their ranks."""

    def __init__(self, wanted: int) -> None:
        """`wanted`: how many the run has."""
        self._wanted = wanted
        self.links: list[AgentLink] = []
        self.settings: Settings | None = None
        """What the first of them asked for."""
        self.by_rank: dict[int, AgentLink] = {}

    @property
    def are_complete(self) -> bool:
        """All have come, so the run has begun."""
        return len(self.links) == self._wanted

    def join(self, link: AgentLink, first: messages.FromAgent, offer: Offer) -> None:
        """Takes an agent by its first message.

        Raises: Refused if that asks for what the server has not, or does not go with the others.
        """
        if not first.HasField("hello"):
            raise refused("the first message of an agent is its Hello")
        if self.are_complete:
            count = "its agent" if self._wanted == 1 else f"all of its {self._wanted} agents"
            raise Refused(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"the run of this server has {count}; start a server for each run",
            )
        settings = check_hello(first.hello, offer)
        link.hello, link.ranks = first.hello, frozenset(first.hello.local_ranks)
        if self.links and link.hello.wanted != self.links[0].hello.wanted:
            raise Refused(
                grpc.StatusCode.FAILED_PRECONDITION,
                "the agents of this run ask for different things; start all with the same command",
            )
        if taken := sorted(link.ranks & self.by_rank.keys()):
            raise Refused(
                grpc.StatusCode.ALREADY_EXISTS,
                f"another agent has ranks {ranges_text(taken)}; each rank has one host",
            )
        if len(self.links) + 1 == self._wanted:
            self._check_all(link, settings)
        self.links.append(link)
        # The first one keeps the data file, whoever came first.
        self.links.sort(key=lambda one: min(one.ranks))
        self.settings = settings
        self.by_rank.update(dict.fromkeys(link.ranks, link))

    def leave(self, link: AgentLink) -> None:
        """It went before the run began: another may come in its place."""
        self.links.remove(link)
        self.by_rank = {rank: one for rank, one in self.by_rank.items() if one is not link}

    def _check_all(self, last: AgentLink, settings: Settings) -> None:
        missing = sorted(set(settings.live_ranks) - self.by_rank.keys() - last.ranks)
        if missing:
            raise Refused(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"ranks {ranges_text(missing)} would have no host, and this is the last of "
                f"{self._wanted} agents; each rank needs one, and --agents of the server says how "
                "many come",
            )
