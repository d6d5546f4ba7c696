"""What an engine does, and what those that declare memory share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from phantora_py.sweep.task import Task

Ended = tuple[Task, str]
"""A task whose result has been kept; or the reason why it has none."""


class Engine(Protocol):
    """Runs tasks somewhere. Each keeps its result itself, wherever it runs."""

    def run(self, tasks: Sequence[Task], begun: Callable[[Task], None]) -> Iterator[Ended]:
        """Yields tasks as they end. `begun` is told of those that are seen to begin.

        Raises: UsageError if the engine refuses them.
        """
        ...

    def learn(self, ranks: int, size_bytes: int) -> None:
        """A run of so many ranks has taken so much of its machine."""
        ...

    def stop(self) -> None:
        """Ends what runs, as an interrupt from the keyboard would."""
        ...


class RankMemory:
    """What a rank takes of a machine, by the runs that have ended: the most of them."""

    # A run of another configuration may take more (assumed).
    _MORE = 1.25

    def __init__(self) -> None:
        self._rank_bytes = 0.0

    @property
    def known(self) -> bool:
        """Whether a run has been weighed."""
        return self._rank_bytes > 0

    def learn(self, ranks: int, size_bytes: int) -> None:
        """A run has taken so much."""
        self._rank_bytes = max(self._rank_bytes, size_bytes / ranks)

    def declared_bytes(self, ranks: int) -> int:
        """What is asked for a run of so many ranks."""
        return int(self._MORE * self._rank_bytes * ranks)


def in_batches(tasks: Sequence[Task], memory: RankMemory) -> Iterator[Sequence[Task]]:
    """Tasks that may be given to an engine together; the first alone while no run has been weighed.
    The next batch is asked for when the one before has ended.
    """
    if not memory.known and len(tasks) > 1:
        yield tasks[:1]
        tasks = tasks[1:]
    if tasks:
        yield tasks
