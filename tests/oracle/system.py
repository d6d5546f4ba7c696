"""The system under test: a real `Simulation`, fed by played ranks as the agents feed it.

Records arrive in pieces, cut anywhere, in any order among ranks, with host clocks that run ahead
of them; helper threads ask on the side; now and then a rank waits outside and is set aside.
`Delivery` says by which luck. None of it may show in the history.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from encoding import HELPER_SLOTS, OUTSIDE_SLOT, PROGRAM_SLOT, helper_wait
from histories import History, Operation, Span
from host_programs import Program
from machine import StatedTimes, settings
from played_hosts import PlayedHost
from played_ranks import whole_files

from sim_server.records import WaitKind
from sim_server.simulation import Simulation

KERNEL_SPAN, WAIT_SPAN = 1, 5
HELPERS_ASK = (WaitKind.QUERY_EVENT, WaitKind.ELAPSED, WaitKind.EVENT)


@dataclass(frozen=True)
class Delivery:
    """How records travel. Without a seed: whole, rank by rank."""

    seed: int | None = None
    uses_news: bool = False
    """Ranks answer queries themselves where they were told enough."""
    sets_aside: bool = False
    """Ranks wait outside now and then."""
    helpers: bool = False
    """Helper threads ask and wait beside the program."""


class System:
    """One run of a program."""

    def __init__(self, program: Program, delivery: Delivery) -> None:
        self.simulation = Simulation(settings(program.ranks), StatedTimes())
        self.hosts = [
            PlayedHost(rank, program, delivery.uses_news) for rank in range(program.ranks)
        ]
        self.delivery = delivery
        self.rng = random.Random(delivery.seed)
        self.helpers: set[tuple[int, int]] = set()
        """Rank and slot of the helper threads that wait."""

    def run(self) -> History:
        """Everything, from the beginning to the end."""
        while not all(host.gone for host in self.hosts):
            for host in self.order():
                if host.between_records:
                    if self.delivery.helpers and self.rng.random() < 0.3:
                        self.ask_aside(host)
                    if self.delivery.sets_aside and self.rng.random() < 0.2:
                        self.set_aside(host)
                self.deliver(host)
            self.advance()
        return self.history()

    def order(self) -> list[PlayedHost]:
        """Whose records come next."""
        hosts = [host for host in self.hosts if not host.gone]
        if self.delivery.seed is not None:
            self.rng.shuffle(hosts)
            del hosts[self.rng.randint(1, len(hosts)) :]
        return hosts

    def deliver(self, host: PlayedHost) -> None:
        """Some of a rank's records, and its clock as it was before they were collected."""
        if host.waiting:
            return
        most = host.left if self.delivery.seed is None else self.rng.randint(0, 6)
        cells = host.take(most)
        if not host.waiting:
            latest_ns = max(host.next_ns, host.guarantee_ns)
            if self.delivery.seed is not None:
                latest_ns = self.rng.choice((latest_ns, host.guarantee_ns))
            host.guarantee_ns = latest_ns
        self.feed(host, cells, self.clock_ns(host))
        if not host.waiting and not host.left:
            host.gone = True
            self.simulation.exited(host.rank, 0)

    def clock_ns(self, host: PlayedHost) -> int:
        """What the simulation is told of a rank's host clock."""
        return host.guarantee_ns

    def feed(self, host: PlayedHost, cells: bytes, clock_ns: int) -> None:
        self.simulation.feed(host.rank, cells, clock_ns)

    def ask_aside(self, host: PlayedHost) -> None:
        """A helper thread asks about an event, or waits for it."""
        free = [slot for slot in HELPER_SLOTS if (host.rank, slot) not in self.helpers]
        if free and host.instances:
            event = self.rng.randint(1, host.instances)
            self.helpers.add((host.rank, free[0]))
            self.feed(host, helper_wait(self.rng.choice(HELPERS_ASK), event, free[0]), 0)

    def set_aside(self, host: PlayedHost) -> None:
        """A rank waits outside for one that is no later, and so loses no time."""
        others = [one for one in self.hosts if one is not host and not one.waiting and not one.gone]
        if host.waiting or not any(one.guarantee_ns <= host.guarantee_ns for one in others):
            return
        self.simulation.set_aside(host.rank, self.simulation.wakeups)
        self.advance()
        self.feed(host, host.come_back(), host.guarantee_ns)

    def advance(self) -> None:
        """Let time pass, and answer."""
        for reply in self.simulation.advance():
            if reply.slot == PROGRAM_SLOT:
                self.hosts[reply.rank].answer(reply)
            elif reply.slot == OUTSIDE_SLOT:
                self.hosts[reply.rank].resume(reply)
            else:
                self.helpers.remove((reply.rank, reply.slot))

    def history(self) -> History:
        """What the data file says, and what the ranks were told."""
        files = whole_files(self.simulation.files())
        durations_ns = [int(timing["name"]) for timing in files.get("timings", [])]
        spans = [
            Span(
                rank,
                kind,
                device,
                stream,
                durations_ns[what] if kind == KERNEL_SPAN else what,
                *times,
            )
            for rank, kind, device, stream, what, *times in files.get("spans", np.empty(0)).tolist()
        ]
        operations = [
            Operation(
                kind=one["kind"],
                comm=one["comm"],
                elements=one["count"],
                members=tuple(one["members"]),
                arrivals_ns=tuple(one["arrivals_ns"]),
                moves_ns=one["moves_ns"],
                ends_ns=tuple(one["ends_ns"]),
            )
            for one in files.get("operations", [])
        ]
        return History(
            spans=spans,
            operations=operations,
            answers=[host.answers for host in self.hosts],
            clocks_ns=[host.clock_ns for host in self.hosts],
            news=[news for host in self.hosts for news in host.news],
            digest=files["digest"].decode(),
        )
