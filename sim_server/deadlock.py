"""The deadlock report: per communicator, who waits where since when, who is missing and why.

Built once, when nobody can go on, from what the engine and the communicators know. It travels as
JSON; phantora_py/report/deadlock.py draws it as tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from sim_server._engine import Engine, HostWait, Pending, data_type_name, operation_name
from sim_server.records import WaitKind
from sim_server.records.communicators import Communicators, Meeting

_CALLS = {
    WaitKind.STREAM: "stream synchronize",
    WaitKind.EVENT: "event synchronize",
    WaitKind.DEVICE: "device synchronize",
    WaitKind.COMM_INIT: "ncclCommInitRank",
    WaitKind.COMM_SPLIT: "ncclCommSplit",
    WaitKind.RESUME: "a sleep",
    WaitKind.OUTSIDE: "a message, a lock or another act that other ranks see",
}
# A host waits for few things of its own at a time; the rest would hide them (assumed).
_MOST_HOLDING_UP = 3


@dataclass(frozen=True)
class Row:
    """Ranks that are in one state. `since_ns`: virtual; None where it is not known."""

    ranks: list[int]
    state: str
    since_ns: int | None
    site: str


@dataclass(frozen=True)
class Table:
    """One thing that ranks wait for."""

    title: str
    rows: list[Row]


@dataclass(frozen=True)
class DeadlockReport:
    """What a deadlock consists of. `waiting`: the ranks that wait."""

    waiting: list[int]
    tables: list[Table]

    @property
    def message(self) -> str:
        """In one sentence."""
        who = f"rank{'' if len(self.waiting) == 1 else 's'} {ranges_text(self.waiting)}"
        verb = "waits" if len(self.waiting) == 1 else "wait"
        where = f" First: {self.tables[0].title}." if self.tables else ""
        what = f"deadlock: {who} {verb} and nobody can end the waiting; so it is on hardware."
        return what + where


def ranges_text(numbers: Iterable[int]) -> str:
    """Numbers as ranges: 0-3, 7."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


class _Builder:
    """Knows what every rank is doing, and puts equal ranks into one row."""

    def __init__(
        self,
        engine: Engine,
        communicators: Communicators,
        exits: Mapping[int, int],
        site: Callable[[int, int], str],
    ) -> None:
        self._engine = engine
        self._communicators = communicators
        self._exits = exits
        self._site = site
        self._waits: dict[int, HostWait] = {wait.rank: wait for wait in engine.host_waits()}
        self._told: set[int] = set()

    def build(self) -> DeadlockReport:
        """Operations first, then communicators that are not complete, then what is left."""
        tables = [self._operation(pending) for pending in self._engine.pending_operations()]
        tables += [self._meeting(meeting) for meeting in self._communicators.meetings()]
        waiting = self._engine.waiting_ranks()
        untold = [rank for rank in waiting if rank not in self._told]
        if untold:
            tables.append(Table("waiting otherwise", _merged(map(self._elsewhere, untold))))
        return DeadlockReport(waiting, tables)

    def _operation(self, pending: Pending) -> Table:
        ranks = self._communicators.ranks(pending.comm)
        several = len(set(ranks)) < len(ranks)
        noun = "GPU" if several else "rank"
        pair = f" from {noun} {pending.source} to {noun} {pending.destination}"
        members = self._communicators.members(pending.comm)
        title = (
            f"communicator {pending.comm} ({noun}s {ranges_text(members)}), "
            f"{operation_name(pending.kind)} number {pending.sequence}"
            f"{pair if pending.source >= 0 else ''} of "
            f"{pending.count:,} x {data_type_name(pending.dtype)}"
        )
        rows = [
            self._arrived(rank, since_ns, self._site(rank, site), gpu if several else None)
            for rank, gpu, site, since_ns in pending.arrived
        ]
        missing = [self._missing(rank, gpu if several else None) for rank, gpu in pending.missing]
        return Table(title, _merged(rows) + _merged(missing))

    def _meeting(self, meeting: Meeting) -> Table:
        rows = [
            self._arrived(rank, joiner.time_ns, self._site(rank, joiner.site))
            for joiner in meeting.joiners
            for rank in [joiner.member.rank]
        ]
        here = {joiner.member for joiner in meeting.joiners}
        missing = [member.rank for member in meeting.members or () if member not in here]
        if meeting.members is None:
            count = meeting.size - len(meeting.joiners)
            unknown = [Row([], f"{count} missing; which ranks is not known", None, "")]
        else:
            unknown = []
        return Table(meeting.title, _merged(rows) + _merged(map(self._missing, missing)) + unknown)

    def _arrived(self, rank: int, since_ns: int, site: str, gpu: int | None = None) -> Row:
        self._told.add(rank)
        return Row([rank], f"waits here{_with(gpu)}", since_ns, site)

    def _missing(self, rank: int, gpu: int | None = None) -> Row:
        row = self._elsewhere(rank)
        return Row(row.ranks, f"missing{_with(gpu)}: {row.state}", row.since_ns, row.site)

    def _elsewhere(self, rank: int) -> Row:
        """What a rank does, wherever it is."""
        if rank in self._exits:
            last = self._site(rank, self._engine.last_site(rank))
            state = f"has ended with exit status {self._exits[rank]}"
            return Row([rank], state, None, f"last GPU call at {last}")
        wait = self._waits.get(rank)
        if wait is None:
            last = self._site(rank, self._engine.last_site(rank))
            return Row([rank], "runs", None, f"last GPU call at {last}")
        state = f"waits in {_CALLS.get(WaitKind(wait.kind), 'a query')}"
        if wait.held_up_by:
            state += f" for {'; '.join(wait.held_up_by[:_MOST_HOLDING_UP])}"
        return Row([rank], state, wait.since_ns, self._site(rank, wait.site))


def report_deadlock(
    engine: Engine,
    communicators: Communicators,
    exits: Mapping[int, int],
    site: Callable[[int, int], str],
) -> DeadlockReport:
    """The report on a simulation in which nobody can go on.

    `exits`: status of the ranks that have ended. `site`: the Python line behind a rank's call site.
    """
    return _Builder(engine, communicators, exits, site).build()


def _with(gpu: int | None) -> str:
    return "" if gpu is None else f" with GPU {gpu}"


def _merged(rows: Iterable[Row]) -> list[Row]:
    """Ranks in the same state at the same line in one row, since the first of them."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.state, row.site), []).append(row)
    return list(_joined(groups))


def _joined(groups: Mapping[tuple[str, str], list[Row]]) -> Iterator[Row]:
    for (state, site), rows in groups.items():
        times_ns = [row.since_ns for row in rows if row.since_ns is not None]
        ranks = sorted(rank for row in rows for rank in row.ranks)
        yield Row(ranks, state, min(times_ns, default=None), site)
