"""What each rank does at this moment, for a view of the run while it goes on."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from phantora_py.agent.channels import Channels

# So often at most (assumed: more could not be read).
_INTERVAL_S = 0.5


class Doing(Enum):
    """What a rank does."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waits for its GPU or for other ranks"
    OUTSIDE = "waits outside the simulation"
    ENDED = "ended"


@dataclass(frozen=True)
class RankState:
    """Of one rank. `host_ns`: the virtual time that its host has come to, as last heard."""

    doing: Doing
    host_ns: int


class RankStates:
    """Follows the clocks of the ranks and tells now and then what they do."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._clocks_ns: dict[int, int] = {}
        self._due_s = 0.0

    def heard(self, rank: int, host_ns: int) -> None:
        """A rank's host has come to this time."""
        self._clocks_ns[rank] = max(host_ns, self._clocks_ns.get(rank, 0))

    def is_due(self) -> bool:
        """Whether it is time to tell."""
        return time.monotonic() >= self._due_s

    def take(
        self,
        ranks: Iterable[int],
        alive: Collection[int],
        up: Collection[int],
        aside: Collection[int],
    ) -> list[RankState]:
        """Of these ranks. `alive`, `up`, `aside`: that run, have made a GPU call, wait outside."""
        self._due_s = time.monotonic() + _INTERVAL_S
        return [
            RankState(self._doing(rank, alive, up, aside), self._clocks_ns.get(rank, 0))
            for rank in ranks
        ]

    def _doing(
        self, rank: int, alive: Collection[int], up: Collection[int], aside: Collection[int]
    ) -> Doing:
        if rank not in alive:
            return Doing.ENDED
        if rank not in up:
            return Doing.STARTING
        if rank in aside:
            return Doing.OUTSIDE
        return Doing.WAITING if self._channels.waiting(rank) else Doing.RUNNING
