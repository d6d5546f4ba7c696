"""Records of a run that has been, instead of ranks: the same simulation, fed from a data file.

A rank's records are fed up to its next wait and go on when that is answered, so that every gap
counts from the same moment as in the run. Under other settings a program would have done other
things where it looked at its GPU's progress; docs/decisions/resimulation.md says what becomes of
that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sim_server.errors import UnsupportedCall
from sim_server.records import (
    FIRST_WITHOUT_PAYLOAD,
    RECORD_TYPE,
    RecordKind,
    ReplyStatus,
    WaitFlags,
    WaitKind,
    payload_cells,
)
from sim_server.run_log import ANSWER, Reply
from sim_server.simulation import Simulation

# A question that was answered "done" is a wait where times may differ.
_WAIT_FOR = {WaitKind.QUERY_STREAM: WaitKind.STREAM, WaitKind.QUERY_EVENT: WaitKind.EVENT}


@dataclass
class Approximations:
    """How often a replay had to decide what the program would have done."""

    polls: int = 0
    """Questions that were answered "done" in the run, and are waits now."""
    outside_waits: int = 0
    """Waits for something outside, which last as long as they did in the run."""


class _Answer(NamedTuple):
    """As ANSWER."""

    kind: int
    status: int
    slot: int
    asked_ns: int
    time_ns: int


@dataclass
class RecordedRank:
    """One rank's records and what it was told, as the data file has them, in pieces."""

    records: Iterator[bytes]
    answers: Iterator[bytes]
    literal: bool
    """The settings are those of the run: nothing needs to be approximated."""
    approximations: Approximations = field(default_factory=Approximations)
    waiting: bool = False
    ended: bool = False
    """There are no more records."""
    _cells: Any = field(default_factory=lambda: np.empty(0, RECORD_TYPE))
    _whole: int = 0
    _waits: deque[int] = field(default_factory=deque)
    _gaps: Any = field(default_factory=lambda: np.empty(0, np.int64))
    _at: int = 0
    _slots: dict[int, bool] = field(default_factory=dict)  # open waits; whether they hold it up
    _answered: deque[_Answer] = field(default_factory=deque)
    _clock_ns: int = 0

    def __post_init__(self) -> None:
        self._read()

    def take(self) -> tuple[bytes, int]:
        """The records up to the next point where something must happen first, and the time before
        which none will follow.
        """
        stop, next_gap_ns = self._whole, 0
        while self._waits:
            position = self._waits[0]
            if int(self._cells[position]["arg"][4]) in self._slots:
                stop, next_gap_ns = position, int(self._gaps[position])
                break
            self._waits.popleft()
            self._begin_wait(position)
            if self.waiting:
                stop = position + 1
                break
        cells = self._cells[self._at : stop].tobytes()
        self._clock_ns += int(self._gaps[self._at : stop].sum())
        self._at = stop
        if stop == self._whole:
            self._read()
        return cells, self._clock_ns + next_gap_ns

    def answer(self, reply: Reply) -> None:
        """A wait has been answered."""
        if self._slots.pop(reply.slot):
            self.waiting = any(self._slots.values())
            self._clock_ns = max(self._clock_ns, reply.time_ns)

    def _begin_wait(self, position: int) -> None:
        record = self._cells[position]
        slot, kind = int(record["arg"][4]), WaitKind(int(record["id"]))
        background = bool(record["flags"] & WaitFlags.BACKGROUND)
        self._slots[slot] = not background
        if background:
            return
        self.waiting = True
        told = self._told(slot)
        if told is None:
            return
        if kind is WaitKind.RESUME and told.time_ns > told.asked_ns:
            self.approximations.outside_waits += not self.literal
            record["host_gap_ns"] += told.time_ns - told.asked_ns
            self._gaps[position] = record["host_gap_ns"]
        elif kind in _WAIT_FOR and told.status == ReplyStatus.DONE and not self.literal:
            self.approximations.polls += 1
            record["id"] = _WAIT_FOR[kind]

    def _told(self, slot: int) -> _Answer | None:
        """What the next wait in `slot` was told; None if the run ended before."""
        for answer in self._answered:
            if answer.slot == slot:
                self._answered.remove(answer)
                return answer
        for piece in self.answers:
            self._answered.extend(_Answer(*fields) for fields in ANSWER.iter_unpack(piece))
            return self._told(slot)
        return None

    def _read(self) -> None:
        """Takes the next piece; what is not whole at its end stays for the one after."""
        piece = next(self.records, None)
        self.ended = piece is None
        left = self._cells[self._whole :]
        self._cells = np.concatenate([left, np.frombuffer(piece or b"", RECORD_TYPE)])
        self._at, self._whole = 0, len(self._cells)
        is_record = np.ones(len(self._cells), bool)
        kinds, after = self._cells["kind"], 0
        for header in np.flatnonzero(kinds < FIRST_WITHOUT_PAYLOAD):
            if header >= after:
                after = int(header) + 1 + payload_cells(int(self._cells[header]["arg"][0]))
                if after > len(self._cells):
                    self._whole = int(header)
                    break
                is_record[header + 1 : after] = False
        is_wait = is_record & (kinds == RecordKind.WAIT)
        self._waits.extend(np.flatnonzero(is_wait[: self._whole]).tolist())
        self._gaps = np.where(is_record, self._cells["host_gap_ns"], 0).astype(np.int64)
        if self._whole == 0 and not self.ended:
            self._read()  # the piece ends within its first record


def replay(
    simulation: Simulation,
    ranks: Sequence[RecordedRank],
    exits: Mapping[int, int],
    write: Callable[[str, bytes], None],
) -> None:
    """Simulates the records of all ranks. `exits`: how processes ended, of which that was known.
    `write` takes the pieces of the new data file.

    Raises: PhantoraError as the run did, at the same point of its history; an unsupported call
    once everything that the ranks had done has been simulated.
    """
    unsupported: UnsupportedCall | None = None
    going = dict(enumerate(ranks))
    moved = True
    while moved:
        moved = False
        for rank, recorded in list(going.items()):
            if recorded.waiting:
                continue
            cells, clock_ns = recorded.take()
            moved = moved or bool(cells)
            try:
                simulation.feed(rank, cells, clock_ns)
            except UnsupportedCall as error:
                unsupported = unsupported or error
            if recorded.ended and (rank in exits or not recorded.waiting):
                simulation.leave(rank, exits.get(rank))
                del going[rank]
                moved = True
        for reply in simulation.advance():
            moved = True
            ranks[reply.rank].answer(reply)
        for name, content in simulation.pieces():
            write(name, content)
    if unsupported is not None:
        raise unsupported
