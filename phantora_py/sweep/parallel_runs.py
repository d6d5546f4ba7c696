"""How many runs of a sweep go on at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from phantora_py.machine.host_memory import available_bytes

# Of what is available when the sweep begins: runs are weighed seldom, and not all alike (assumed).
_MEMORY_SHARE = 0.8
PROCESSORS_OF_A_RUN = 2
"""Ranks, agent and server keep as many busy, also of a run with one rank (assumed)."""


class ParallelRuns:
    """Runs enter and leave. Without a number as many are in it as processors and memory allow, by
    what those before have taken; as long as that is not known, one.
    """

    def __init__(
        self,
        most: int | None,
        available: Callable[[], int] = available_bytes,
        processors: int | None = None,
    ) -> None:
        """`most`: the user's number."""
        self.most = most or max(1, (processors or os.cpu_count() or 1) // PROCESSORS_OF_A_RUN)
        self._weighs = most is None
        self._memory_bytes = int(_MEMORY_SHARE * available())
        self._rank_bytes: float | None = None
        self._entered: list[int] = []
        self._changed = threading.Condition()

    def enter(self, ranks: int) -> None:
        """Waits until there is room for a run of so many ranks."""
        with self._changed:
            self._changed.wait_for(lambda: self.fits(ranks))
            self._entered.append(ranks)

    def leave(self, ranks: int) -> None:
        """A run has ended."""
        with self._changed:
            self._entered.remove(ranks)
            self._changed.notify_all()

    def learn(self, ranks: int, size_bytes: int) -> None:
        """A run has taken so much."""
        with self._changed:
            self._rank_bytes = max(self._rank_bytes or 0, size_bytes / ranks)

    def fits(self, ranks: int) -> bool:
        """Whether a run of so many ranks may enter now."""
        if not self._entered or not self._weighs:
            return len(self._entered) < self.most
        if self._rank_bytes is None or len(self._entered) >= self.most:
            return False
        return self._rank_bytes * (sum(self._entered) + ranks) <= self._memory_bytes
