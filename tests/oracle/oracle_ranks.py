"""What the oracle knows about a rank: its host, its devices, and what is to happen there."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from calls import DEVICES, Answer, Call, Host
from devices import Device

from sim_server.records import WaitKind

CREATIONS = (WaitKind.COMM_INIT, WaitKind.COMM_SPLIT)


def waits_for_own(call: Call) -> bool:
    """Whether a call waits, and for nothing that concerns other ranks."""
    return call.wait is not None and call.wait not in CREATIONS


@dataclass(eq=False)
class Item:
    """A call that takes its turn on a device, or a host's wait for such calls."""

    rank: int
    call: Call
    issue_ns: int
    after: list[Item]
    """Those it waits for and that are not done."""
    start_ns: int = 0
    end_ns: int = 0
    """Of a copy or launch, once it is known."""
    unfinished: int = 0
    """Operations of a launch."""


class Round(NamedTuple):
    """What a rank issues at one time, up to a wait that follows something issued."""

    time_ns: int
    number: int = 0
    has_issued: bool = False


NEVER = Round(-1)


class Happening(NamedTuple):
    """Something that can happen next. The first five fields are the order of everything."""

    time_ns: int
    round: int
    phase: int
    rank: int
    order: tuple[int, int]
    what: Item | Call


@dataclass
class Rank:
    """A rank's host and devices."""

    host: Host
    clock_ns: int = 0
    issued: deque[tuple[int, Call]] = field(default_factory=deque)
    """Calls with their times, up to the next wait."""
    round: Round = NEVER
    """Its last."""
    question: tuple[int, Call] | None = None
    items: list[Item] = field(default_factory=list)
    """Not done, in the order of their issue."""
    timed: list[Item] = field(default_factory=list)
    """Copies and launches with a known end, in the order in which it became known."""
    devices: list[Device] = field(default_factory=lambda: [Device() for _ in range(DEVICES)])
    copying: dict[tuple[int, int], list[Item]] = field(default_factory=dict)
    """By device and kind: the copy that runs, then those that wait."""
    recorded_ns: dict[int, int] = field(default_factory=dict)
    """Of each event instance that is done."""
    answers: list[Answer] = field(default_factory=list)

    def device(self, item: Item) -> Device:
        """The device of an item."""
        return self.devices[item.call.stream.device]

    def round_at(self, time_ns: int) -> Round:
        """The rank's round at a time."""
        return self.round if self.round.time_ns == time_ns else Round(time_ns)

    def round_of(self, time_ns: int, call: Call) -> Round:
        """The round of the next call: a wait comes after what everybody has issued before."""
        now = self.round_at(time_ns)
        if not waits_for_own(call):
            return now._replace(has_issued=True)
        if call.wait is WaitKind.RESUME or not now.has_issued:
            return now
        return Round(time_ns, now.number + 1)

    def copies(self, item: Item) -> list[Item]:
        """The copies of an item's engine."""
        return self.copying.setdefault((item.call.stream.device, item.call.args[0]), [])
