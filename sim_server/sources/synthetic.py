"""A rank that a generator plays: for benchmarks, and for programs that exist only as a trace."""

from __future__ import annotations

from collections.abc import Generator

from sim_server.log.run_log import Reply

Steps = Generator[bytes, Reply | None, bytes]
"""Yields whole records that end with a wait, and is sent the answer; returns the records after the
last wait. sim_server/records/writer.py makes records.
"""


class SyntheticRank:
    """A `RankSource` that does what its steps say."""

    is_outside = False

    def __init__(self, rank: int, steps: Steps) -> None:
        self.rank = rank
        self.waiting = False
        self.ended = False
        self._steps = steps
        self._reply: Reply | None = None

    def take(self) -> bytes:
        """The next step."""
        try:
            cells = self._steps.send(self._reply)
        except StopIteration as end:
            self.ended = True
            return bytes(end.value)
        self.waiting = True
        return cells

    def answer(self, reply: Reply) -> None:
        """The step that comes next gets it."""
        self._reply, self.waiting = reply, False

    def where(self) -> str | None:
        """None: how far it gets is not known before."""
        return None
