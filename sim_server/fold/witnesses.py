"""Whether witnesses do what their representatives do, from the first optimizer step on.

A difference ends the run once another optimizer step follows it. What comes after the last one, as
when one rank writes a checkpoint, is in no iteration and is told in the report.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from sim_server.errors import Mismatch
from sim_server.fold.mesh import Fold
from sim_server.fold.steps import Step, StepReader
from sim_server.fold.words import clauses


class Differs(Mismatch):
    """A witness does something else than the rank that stands for it."""

    def __init__(self, message: str, witness: int, representative: int) -> None:
        super().__init__(message)
        self.witness = witness
        self.representative = representative


@dataclass
class _Pair:
    """A witness and its representative, and what one has done and the other not yet."""

    witness: int
    representative: int
    ahead: dict[int, deque[Step]] = field(default_factory=dict)
    steps: int = 0
    """That were equal."""
    host_ns: int = 0
    """Of the witness, for these."""
    representative_host_ns: int = 0
    difference: str = ""

    def see(self, rank: int, step: Step) -> None:
        """Raises: Mismatch."""
        if self.difference:
            if step.ends_iteration:
                raise Differs(
                    f"{self.difference}: rank {self.representative} cannot stand for rank "
                    f"{self.witness}. Let all ranks do the same, make ranks that differ a class of "
                    "their own with --apart, fold other dimensions, or run without --fold",
                    self.witness,
                    self.representative,
                )
            return
        other = self.representative if rank == self.witness else self.witness
        waiting = self.ahead.setdefault(other, deque())
        if not waiting:
            self.ahead.setdefault(rank, deque()).append(step)
            return
        before = waiting.popleft()
        mine, theirs = (step, before) if rank == self.witness else (before, step)
        if mine.what == theirs.what:
            self.steps += 1
            self.host_ns += mine.host_ns
            self.representative_host_ns += theirs.host_ns
            return
        said = clauses(mine.what, theirs.what)
        self.difference = (
            f"rank {self.witness} {said[0]}{mine.site}, where rank {self.representative} "
            f"{said[1]}{theirs.site}"
        )
        # What one of them has done meanwhile may have ended an iteration.
        for one in list(waiting):
            self.see(other, one)
        waiting.clear()

    def to_dict(self) -> dict[str, Any]:
        """As fold.json has it."""
        if not self.difference:
            left = [(rank, steps[0]) for rank, steps in self.ahead.items() if steps]
            self.difference = "".join(f"rank {rank} {step} as its last" for rank, step in left)
        return {
            "rank": self.witness,
            "representative": self.representative,
            "steps": self.steps,
            "difference": self.difference,
            "host_ns": self.host_ns,
            "representative_host_ns": self.representative_host_ns,
        }


class Witnesses:
    """Compares the records of some ranks as they come."""

    def __init__(self, fold: Fold) -> None:
        self._pairs = [_Pair(one, fold.representative(one)) for one in fold.witnesses]
        self._of: dict[int, list[_Pair]] = {}
        for pair in self._pairs:
            for rank in (pair.witness, pair.representative):
                self._of.setdefault(rank, []).append(pair)
        self._readers = {rank: StepReader() for rank in self._of}

    def feed(self, rank: int, cells: bytes) -> None:
        """Takes whole records of a rank. Raises: Mismatch."""
        reader = self._readers.get(rank)
        if reader is None:
            return
        for step in reader.read(cells):
            for pair in self._of[rank]:
                pair.see(rank, step)

    def to_list(self) -> list[dict[str, Any]]:
        """How far each was compared, and where it differed after the last iteration."""
        return [pair.to_dict() for pair in self._pairs]
