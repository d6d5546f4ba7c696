"""The oracle's communicators: who meets whom, in operations and when communicators are created."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from calls import Op

from sim_server.records import NcclOpKind


@dataclass(eq=False)
class Meeting:
    """What several ranks arrive at: an operation, or the creation of communicators."""

    size: int
    arrived: dict[int, tuple[int, int, Any]] = field(default_factory=dict)
    """By position: rank, time in ns, and what it comes with."""

    @property
    def in_order(self) -> list[tuple[int, int, Any]]:
        """Those who have arrived, by position."""
        return [self.arrived[position] for position in sorted(self.arrived)]


@dataclass
class Meetings:
    """All communicators, and the meetings that are not complete."""

    comms: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Ranks of each, in its order."""
    open: dict[tuple[int, ...], Meeting] = field(default_factory=dict)

    def at_operation(self, rank: int, now_ns: int, op: Op, launch: object) -> Meeting | None:
        """A rank's part in an operation has begun. Returns the operation if it was the last."""
        members = self.comms[op.comm]
        position = members.index(rank)
        if op.kind is NcclOpKind.SEND:
            key: tuple[int, ...] = (op.comm, 1, position, op.peer, op.sequence)
        elif op.kind is NcclOpKind.RECV:
            key = (op.comm, 1, op.peer, position, op.sequence)
        else:
            key = (op.comm, 0, op.sequence)
            return self._arrive(key, len(members), position, (rank, now_ns, launch))
        return self._arrive(key, 2, int(op.kind is NcclOpKind.RECV), (rank, now_ns, launch))

    def at_creation(self, rank: int, now_ns: int, args: tuple[int, ...]) -> Meeting | None:
        """A rank waits for a communicator: `args` are its unique id, size and position."""
        identifier, size, position = args
        return self._arrive((0, identifier), size, position, (rank, now_ns, 0))

    def at_split(self, rank: int, now_ns: int, args: tuple[int, ...]) -> Meeting | None:
        """A rank waits for a split: `args` are communicator, colour, key and number."""
        comm, colour, key, number = args
        members = self.comms[comm]
        came = (rank, now_ns, (colour, key))
        return self._arrive((-1, comm, number), len(members), members.index(rank), came)

    def create(self, ranks: list[int]) -> int:
        """A new communicator."""
        number = len(self.comms) + 1
        self.comms[number] = tuple(ranks)
        return number

    def _arrive(
        self, key: tuple[int, ...], size: int, position: int, who: tuple[int, int, Any]
    ) -> Meeting | None:
        meeting = self.open.setdefault(key, Meeting(size))
        meeting.arrived[position] = who
        if len(meeting.arrived) < size:
            return None
        return self.open.pop(key)
