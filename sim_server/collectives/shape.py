"""What an algorithm moves, per byte of the operation's buffer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Switch(Enum):
    """An end of a flow that is no rank."""

    NVLINK = "the NVSwitch of the other end's node"
    FABRIC = "the switch above the other end's NIC"


class Transfer(NamedTuple):
    """A steady flow between two ranks, or between a rank and a switch."""

    source: int | Switch
    """Global rank, or a switch."""
    destination: int | Switch
    """Likewise."""
    share: float
    """Bytes on the flow per byte of the buffer."""


@dataclass(frozen=True)
class Shape:
    """The flows of one algorithm for one group, and the chain of steps that fills its pipeline."""

    transfers: tuple[Transfer, ...]
    """All of them start together, when the pipeline is full."""
    nvlink_steps: int = 0
    """Steps inside a node on the longest chain."""
    network_steps: int = 0
    """Steps between nodes on the longest chain."""
    messages: int = 0
    """Messages that one rank has to issue one after the other."""
    network_messages: int = 0
    """Those of them that leave the node."""
    sent_share: float = 1.0
    """What one rank sends, per byte of the buffer."""
    waits: int = 1
    """How many parts wait for each other, one after the other, until the pipeline is full."""
    part_share: float | None = None
    """Of such a part, per byte of the buffer; None: what a rank sends."""
    own_share: float = 0.0
    """What one rank only combines or copies within itself, per byte of the buffer."""
    coupled: bool = True
    """Whether all flows advance at the pace of the slowest."""

    @property
    def filling_share(self) -> float:
        """`part_share`, whatever it is."""
        return self.sent_share if self.part_share is None else self.part_share
