"""What a rank is to a simulation: records up to its next wait, and how that was answered."""

from __future__ import annotations

from typing import Protocol

from sim_server.log.run_log import Reply


class RankSource(Protocol):
    """One rank. What it does next may depend on the answers to its waits, and on nothing else."""

    rank: int
    """From 0."""

    @property
    def waiting(self) -> bool:
        """Its last record is a wait that has not been answered."""

    @property
    def ended(self) -> bool:
        """There are no more records."""

    @property
    def is_outside(self) -> bool:
        """It waits for what another rank does outside the GPU; `take` has no records until then."""

    def take(self) -> bytes:
        """The records up to the next wait and that wait, whole. Only while it is not waiting."""

    def answer(self, reply: Reply) -> None:
        """Its wait has been answered."""

    def where(self) -> str | None:
        """Where it stands, if it is known that it gets further than that; None if not."""
