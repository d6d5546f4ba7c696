"""Where two runs that should be equal part: the first record of each rank that differs.

    python tools/first_difference.py ONE.phr OTHER.phr

Compares what the ranks asked for and how much host time passed in between, record by record, and
leaves out what may differ in equal runs: questions after events and waits of streams for them,
which depend on what helper threads of PyTorch found out first, pinned memory, turns to act outside,
addresses, the order in which Python lines are first seen. The rank that differs at the earliest
virtual time is told first: the others may only follow. Exits with 1 if there is a difference.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np

from phantora_py.data import RunData
from sim_server.log.run_log import ANSWER
from sim_server.records import (
    CELL_BYTES,
    RECORD_TYPE,
    MemoryKind,
    NcclOpKind,
    RecordKind,
    WaitFlags,
    WaitKind,
    named_args,
    payload_cells,
)

CONTEXT = 4  # records shown before a difference
# Waits of which an equal run may have more or fewer.
_TURNS = (
    *(WaitKind.QUERY_STREAM, WaitKind.QUERY_EVENT, WaitKind.ELAPSED),
    *(WaitKind.RESUME, WaitKind.OUTSIDE),
)
_ADDRESSES = (RecordKind.ALLOC, RecordKind.FREE)


@dataclass(frozen=True)
class Step:
    """One record of a rank. `gap_ns`: host time since the record before."""

    what: str
    gap_ns: int
    time_ns: int
    """On the rank's host clock."""
    site: str
    """Python line."""

    def __str__(self) -> str:
        return f"{self.time_ns:>15,} ns  (+{self.gap_ns:,})  {self.what}  {self.site}"


@dataclass(frozen=True)
class Difference:
    """Where a rank does something else in the other run; None where a stream has ended before."""

    rank: int
    number: int
    before: Sequence[Step]
    one: Step | None
    other: Step | None

    @property
    def time_ns(self) -> int:
        """In the run where it is earlier."""
        return min(step.time_ns for step in (self.one, self.other) if step is not None)

    def __str__(self) -> str:
        lines = [f"rank {self.rank}, record {self.number}:"]
        lines += [f"    {step}" for step in self.before]
        lines += [f"  1 {self.one or 'nothing more'}", f"  2 {self.other or 'nothing more'}"]
        return "\n".join(lines)


def steps(data: RunData, rank: int) -> Iterator[Step]:
    """What a rank did, in the order in which it did it."""
    answers = ANSWER.iter_unpack(b"".join(data.answers(rank)))
    names: dict[tuple[RecordKind, int], str] = {}
    time_ns = gap_ns = 0
    stream = b"".join(data.records(rank))
    position = 0
    while position < len(stream):
        (record,) = np.frombuffer(stream, RECORD_TYPE, 1, position)
        position += CELL_BYTES
        kind = RecordKind(record["kind"])
        wait = WaitKind(record["id"]) if kind is RecordKind.WAIT else None
        args = named_args(kind, record["arg"].tolist(), wait)
        args.pop("scope", None)  # for whom work is issued decides no time
        if kind.has_payload:
            payload = stream[position : position + args["bytes"]].decode()
            position += payload_cells(args["bytes"]) * CELL_BYTES
            names[kind, int(record["id"])] = payload
        gap_ns += int(record["host_gap_ns"])
        time_ns += int(record["host_gap_ns"])
        if not _is_luck(record, kind):
            site = names.get((RecordKind.SITE, int(record["site"])), "")
            yield Step(_describe(record, kind, args, names), gap_ns, time_ns, site)
            gap_ns = 0
        if kind is RecordKind.WAIT and not record["flags"] & WaitFlags.BACKGROUND:
            *_, answered_ns = next(answers, (0,))  # none if the run ended before
            time_ns = max(time_ns, answered_ns)


def _is_luck(record: np.void, kind: RecordKind) -> bool:
    """Whether another run may be without this record and be equal."""
    if kind is RecordKind.WAIT:
        return bool(record["flags"] & WaitFlags.BACKGROUND) or record["id"] in _TURNS
    if kind in _ADDRESSES:
        return bool(record["id"] == MemoryKind.PINNED_HOST)
    # PyTorch lets no stream wait for a collective that its watchdog has found complete.
    return kind in (RecordKind.SITE, RecordKind.STATISTICS, RecordKind.STREAM_WAIT)


def _describe(
    record: np.void,
    kind: RecordKind,
    args: dict[str, int],
    names: dict[tuple[RecordKind, int], str],
) -> str:
    """What a record says, without what may differ between equal runs: addresses and slots."""
    identifier = int(record["id"])
    where = f"device {record['device']} stream {record['stream']}"
    if kind.has_payload:
        return f"{kind.name} {identifier} {names[kind, identifier]}"
    if kind is RecordKind.KERNEL:
        return f"KERNEL {where} {names[RecordKind.SIGNATURE, identifier]}"
    if kind is RecordKind.WAIT:
        asked = {name: value for name, value in args.items() if name != "slot"}
        return f"WAIT {WaitKind(identifier).name} {where} {asked}"
    if kind is RecordKind.NCCL_OP:
        return f"NCCL_OP {NcclOpKind(record['flags']).name} communicator {identifier} {args}"
    if kind in _ADDRESSES:
        sizes = f"{args['bytes']} bytes, {args['used_bytes']} in use"
        return f"{kind.name} {MemoryKind(identifier).name} {sizes}"
    return f"{kind.name} {where} {identifier} flags {record['flags']} {args}"


def difference(one: RunData, other: RunData, rank: int) -> Difference | None:
    """The first one of a rank."""
    before: deque[Step] = deque(maxlen=CONTEXT)
    pairs = zip_longest(steps(one, rank), steps(other, rank))
    for number, (left, right) in enumerate(pairs):
        if (
            left is None
            or right is None
            or (left.what, left.time_ns) != (right.what, right.time_ns)
        ):
            return Difference(rank, number, tuple(before), left, right)
        before.append(left)
    return None


def differences(one: Path, other: Path) -> list[Difference]:
    """Those of all ranks, the earliest first."""
    runs = RunData(one), RunData(other)
    found = [difference(*runs, rank) for rank in range(max(run.ranks for run in runs))]
    return sorted(filter(None, found), key=lambda found: found.time_ns)


def main() -> int:
    """Prints the differences of two data files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("one", type=Path)
    parser.add_argument("other", type=Path)
    options = parser.parse_args()
    found = differences(options.one, options.other)
    print("\n".join(map(str, found)) or "no rank did anything else")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
