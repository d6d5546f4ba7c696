"""What the oracle knows about a rank: its host, its devices, and what is to happen there."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from calls import DEVICES, Answer, Call, Host
from devices import Device


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


class Happening(NamedTuple):
    """Something that can happen next. The first four fields are the order of everything."""

    time_ns: int
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

    def copies(self, item: Item) -> list[Item]:
        """The copies of an item's engine."""
        return self.copying.setdefault((item.call.stream.device, item.call.args[0]), [])
