"""Ranks that wait for the answer to a question that they have not asked: it was garbled."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from sim_server import simulation_pb2 as wire

# Whose threads all sleep for so long on an answer that the server does not know of, has garbled the
# question (assumed enough for one that is on its way).
_LIMIT_S = 10.0


class Unasked:
    """A rank waits for an answer while the server, which has got all that it sent, waits for it."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._sent = Counter[int]()
        self._taken: dict[int, int] = {}
        """By rank, bytes of records: those sent, and those that the server had got when it last
        said that it waits for the rank."""
        self._since_s: dict[int, float] = {}

    def sends(self, rank: int, cells: bytes) -> None:
        """These records of a rank are sent to the server."""
        self._sent[rank] += len(cells)

    def asks(self, rank: int) -> None:
        """There was something of a driver's thread among them."""
        self._since_s.pop(rank, None)

    def got_on(self) -> None:
        """The simulation has."""
        self._since_s.clear()

    def told(self, stalled: wire.Stalled) -> None:
        """For whom the server waits, and what it has got of them."""
        self._taken = dict(zip(stalled.held_up_by, stalled.taken, strict=True))

    def find(self, waiting: Iterable[int]) -> Iterator[int]:
        """Of ranks for which the server waits, and that wait for an answer, those that have done so
        for too long.
        """
        now_s = self._now_s()
        found = sorted(rank for rank in waiting if self._taken.get(rank) == self._sent[rank])
        self._since_s = {rank: self._since_s.get(rank, now_s) for rank in found}
        for rank, since_s in self._since_s.items():
            if now_s - since_s > _LIMIT_S:
                yield rank
