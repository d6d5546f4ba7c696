"""What the host of a rank asks of its GPU, and what it is told."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from sim_server.records import NcclOpKind, WaitKind

DEVICES = 2


class Stream(NamedTuple):
    """Identifier 0 is the legacy default stream of its device."""

    identifier: int
    device: int
    blocking: bool


# The streams that a rank begins with.
SLOTS = (
    Stream(0, 0, True),
    Stream(1, 0, True),
    Stream(2, 0, False),
    Stream(3, 0, False),
    Stream(0, 1, True),
    Stream(5, 1, False),
)


class Op(NamedTuple):
    """One NCCL call of a launch. `peer`: root, or the other rank of a send or receive."""

    kind: NcclOpKind
    comm: int
    elements: int
    peer: int
    sequence: int


class Call(NamedTuple):
    """What a rank asks of its GPU. Those with a `wait` are answered before the rank goes on."""

    what: str
    gap_ns: int
    stream: Stream = SLOTS[0]
    args: tuple[int, ...] = ()
    ops: tuple[Op, ...] = ()
    wait: WaitKind | None = None


class Answer(NamedTuple):
    """What a waiting rank is told. `members` of a communicator that was created."""

    time_ns: int
    ready: bool = True
    value: int = 0
    members: tuple[int, ...] = ()


Host = Generator[Call, Answer | None, None]
