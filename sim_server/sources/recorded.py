"""One rank of a run that has been: its records up to the next wait, and how that was answered.

Owns what a recording says and what becomes of it under other settings
(docs/decisions/resimulation.md).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sim_server.log.run_log import ANSWER, Reply
from sim_server.records import (
    FIRST_WITHOUT_PAYLOAD,
    RECORD_TYPE,
    RecordKind,
    ReplyStatus,
    WaitFlags,
    WaitKind,
    payload_cells,
    position_of,
)
from sim_server.records.schema import WAIT_LAYOUTS

_SLOT = position_of(RecordKind.WAIT, "slot")
_VALUES_NS = WAIT_LAYOUTS[WaitKind.RESUME].args["values_ns"].position
_LASTS_NS = WAIT_LAYOUTS[WaitKind.RESUME].args["lasts_ns"].position
_PAYLOAD_BYTES = position_of(RecordKind.SIGNATURE, "bytes")
# What an act outside costs with host time off. Source: kActNs in csrc/shim/libc/outside.cc.
_ACT_NS = 1000
# A question that was answered "done" is a wait where times may differ.
_WAIT_FOR = {WaitKind.QUERY_STREAM: WaitKind.STREAM, WaitKind.QUERY_EVENT: WaitKind.EVENT}


@dataclass
class Approximations:
    """How often a replay had to decide what the program would have done."""

    polls: int = 0
    """Questions that were answered "done" in the run, and are waits now."""
    outside_waits: int = 0
    """Waits for something outside, which last as long as they did in the run."""
    time_reads: int = 0
    """Times of GPU work that the program asked for, to print or to decide something."""
    not_ready: int = 0
    """Questions that were answered "not ready", and stay so."""


class _Answer(NamedTuple):
    """As ANSWER."""

    kind: int
    status: int
    slot: int
    asked_ns: int
    time_ns: int

    @property
    def came_back_late(self) -> bool:
        """It waited outside, and the simulation had gone on."""
        return self.kind == WaitKind.RESUME and self.time_ns > self.asked_ns


def _unpack(pieces: Iterable[bytes]) -> Iterator[_Answer]:
    for piece in pieces:
        yield from map(_Answer._make, ANSWER.iter_unpack(piece))


class _Wait(NamedTuple):
    """A wait that holds its rank up. `number`: of its record in the stream, from 0."""

    number: int
    kind: WaitKind
    slot: int


class Act(NamedTuple):
    """What a rank did outside. `number`: how often it had acted then, from 1."""

    rank: int
    number: int


class Acts:
    """When ranks acted outside in the run, and what of that has happened again."""

    def __init__(self, answers: Mapping[int, Iterable[bytes]] | None = None) -> None:
        """`answers`: by rank, in pieces."""
        self._wakes: dict[int, Act] = {}  # by time
        self._done: Counter[int] = Counter()
        for rank, pieces in (answers or {}).items():
            number, came_back_ns = 0, -1
            for answer in _unpack(pieces):
                if answer.came_back_late:
                    came_back_ns = answer.time_ns
                elif answer.kind == WaitKind.OUTSIDE:
                    number += 1
                    # Whoever came back and acted at one time has not woken those who came with it.
                    if answer.time_ns != came_back_ns:
                        self._wakes.setdefault(answer.time_ns, Act(rank, number))

    def wake(self, time_ns: int) -> Act | None:
        """What set a rank going at this time of the run; None if that was nobody's act."""
        return self._wakes.get(time_ns)

    def note(self, rank: int) -> None:
        """This rank has acted."""
        self._done[rank] += 1

    def is_done(self, act: Act) -> bool:
        """Whether it has happened again."""
        return self._done[act.rank] >= act.number


@dataclass
class RecordedRank:
    """A `RankSource`: a rank's records and what it was told, as the data file has them, in pieces.

    Waits of helper threads are left out. They hold nobody up and nothing follows from them: what a
    rank did when its helpers had been answered is in its own records.
    """

    rank: int
    records: Iterator[bytes]
    answers: Iterator[bytes]
    literal: bool
    """The settings are those of the run: nothing needs to be approximated."""
    approximations: Approximations = field(default_factory=Approximations)
    acts: Acts = field(default_factory=Acts)
    host_factor: float = 1.0
    """What the program did between its calls takes so many times as long; 0: no time."""
    ended: bool = False
    """There are no more records."""
    waits_for: Act | None = None
    """It waits outside, and comes back when this has happened."""
    _wait: _Wait | None = None
    _cells: Any = field(default_factory=lambda: np.empty(0, RECORD_TYPE))  # whole records
    _numbers: Any = field(default_factory=lambda: np.empty(0, np.int64))  # of their records
    _left: Any = field(default_factory=lambda: np.empty(0, RECORD_TYPE))  # not whole yet
    _waits: deque[int] = field(default_factory=deque)
    _at: int = 0
    _read_records: int = 0
    _after_act: bool = False  # the record before was an act outside
    _answered: deque[_Answer] = field(default_factory=deque)
    _resume: _Answer | None = None  # of the wait outside that is next

    def __post_init__(self) -> None:
        self._read()

    @property
    def waiting(self) -> bool:
        """It goes on when it is answered."""
        return self._wait is not None

    @property
    def is_outside(self) -> bool:
        """It waits for an act of another rank."""
        return self.waits_for is not None

    def take(self) -> bytes:
        """The records up to the next wait, and that, unless the rank waits outside before."""
        stop = len(self._cells)
        if self._waits:
            stop = self._waits[0]
            if not self._is_outside(stop):
                self._begin_wait(self._waits.popleft())
                stop += 1
        cells: bytes = self._cells[self._at : stop].tobytes()
        self._at = stop
        if stop == len(self._cells):
            self._read()
        return cells

    def answer(self, reply: Reply) -> None:
        """Its wait has been answered."""
        assert self._wait is not None, "nobody else is answered"
        assert self._wait.slot == reply.slot, "the only wait there is"
        if self._wait.kind is WaitKind.OUTSIDE:
            self.acts.note(self.rank)
        self._wait = None

    def where(self) -> str | None:
        """Where it stands; None if it has come to its last wait. For reports: it cannot go on."""
        wait = self._wait
        while not self._waits and not self.ended:
            self._read()
        if not self._waits:
            return None
        if wait is None:
            act = self.waits_for
            why = f" (waits for act {act.number} of rank {act.rank} outside)" if act else ""
            return f"rank {self.rank} before record {int(self._numbers[self._waits[0]])}{why}"
        kind = wait.kind.name.lower()
        return f"rank {self.rank} at record {wait.number} (wait: {kind}, slot {wait.slot})"

    def _is_outside(self, position: int) -> bool:
        """Whether the rank waits outside before this wait, and what it waits for has not happened.

        Only a Resume tells of that. Under the run's settings it is known when it came.
        """
        if self.waits_for is None and self._resume is None and not self.literal:
            record = self._cells[position]
            if record["id"] == WaitKind.RESUME:
                told = self._resume = self._told(int(record["arg"][_SLOT]))
                if told is not None and told.came_back_late:
                    self.waits_for = self.acts.wake(told.time_ns)
        return self.waits_for is not None and not self.acts.is_done(self.waits_for)

    def _begin_wait(self, position: int) -> None:
        record = self._cells[position]
        slot, kind = int(record["arg"][_SLOT]), WaitKind(int(record["id"]))
        self._wait = _Wait(int(self._numbers[position]), kind, slot)
        told, self._resume = self._resume or self._told(slot), None
        woken, self.waits_for = self.waits_for is not None, None
        if kind is WaitKind.RESUME:
            # As it was told: another run has other times.
            record["arg"][_VALUES_NS] = record["arg"][_LASTS_NS] = 0
        if told is None:
            return
        if told.came_back_late and not woken:
            self.approximations.outside_waits += not self.literal
            record["arg"][_LASTS_NS] = told.time_ns - told.asked_ns
        elif kind in _WAIT_FOR and told.status == ReplyStatus.DONE and not self.literal:
            self.approximations.polls += 1
            record["id"] = _WAIT_FOR[kind]
            record["flags"] |= WaitFlags.POLLED
        elif not self.literal:
            self.approximations.not_ready += kind in _WAIT_FOR
            self.approximations.time_reads += kind is WaitKind.ELAPSED

    def _told(self, slot: int) -> _Answer | None:
        """What the next wait in `slot` was told; None if the run ended before."""
        for answer in self._answered:
            if answer.slot == slot:
                self._answered.remove(answer)
                return answer
        for piece in self.answers:
            self._answered.extend(_unpack([piece]))
            return self._told(slot)
        return None

    def _scale_host_time(self, cells: Any, is_record: Any) -> None:
        """Leaves alone what also passes with host time off: sleeps, whose Resume has a Python line
        where that of a rank that was set aside has none, and what acts outside cost.
        """
        records = np.flatnonzero(is_record)
        rows = cells[records]
        is_wait = rows["kind"] == RecordKind.WAIT
        is_wait &= rows["flags"] & WaitFlags.BACKGROUND == 0
        is_act = is_wait & (rows["id"] == WaitKind.OUTSIDE)
        is_sleep = is_wait & (rows["id"] == WaitKind.RESUME) & (rows["site"] != 0)
        after_act = np.concatenate([[self._after_act], is_act])
        gaps_ns = rows["host_gap_ns"]
        kept_ns = np.where(after_act[:-1], np.minimum(gaps_ns, _ACT_NS), 0)
        own_ns = np.round((gaps_ns - kept_ns) * self.host_factor).astype(gaps_ns.dtype)
        cells["host_gap_ns"][records] = np.where(is_sleep, gaps_ns, kept_ns + own_ns)
        self._after_act = bool(after_act[-1])

    def _read(self) -> None:
        """Takes the next piece; what is not whole at its end stays for the one after."""
        piece = next(self.records, None)
        self.ended = piece is None
        cells = np.concatenate([self._left, np.frombuffer(piece or b"", RECORD_TYPE)])
        is_record, whole = records_in(cells)
        is_wait = is_record & (cells["kind"] == RecordKind.WAIT)
        is_helpers = is_wait & (cells["flags"] & WaitFlags.BACKGROUND != 0)
        # The host time before a helper's wait belongs to what the rank does next.
        while whole > 0 and is_helpers[whole - 1]:
            whole -= 1
        if self.host_factor != 1:
            self._scale_host_time(cells[:whole], is_record[:whole])
        for helpers in np.flatnonzero(is_helpers[:whole]):
            cells["host_gap_ns"][helpers + 1] += cells["host_gap_ns"][helpers]
        kept = ~is_helpers[:whole]
        numbers = self._read_records + np.cumsum(is_record[:whole]) - 1
        self._read_records += int(is_record[:whole].sum())
        self._cells, self._numbers = cells[:whole][kept], numbers[kept]
        self._left = cells[whole:]
        self._waits.extend(np.flatnonzero(is_wait[:whole][kept]).tolist())
        self._at = 0
        if len(self._cells) == 0 and not self.ended:
            self._read()  # the piece ends within its first record


def records_in(cells: Any) -> tuple[Any, int]:
    """Which cells begin a record, and where the first record begins that is not whole."""
    is_record = np.ones(len(cells), bool)
    whole, after = len(cells), 0
    for header in np.flatnonzero(cells["kind"] < FIRST_WITHOUT_PAYLOAD):
        if header >= after:
            after = int(header) + 1 + payload_cells(int(cells[header]["arg"][_PAYLOAD_BYTES]))
            if after > len(cells):
                whole = int(header)
                break
            is_record[header + 1 : after] = False
    return is_record, whole
