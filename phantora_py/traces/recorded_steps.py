"""What a rank did, record by record: with its host's clock, and with how its waits were answered.

Waits of helper threads are left out, and their host time belongs to what follows, as in a
resimulation (docs/decisions/resimulation.md).
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import numpy as np

from phantora_py.data import RunData
from sim_server.errors import UsageError
from sim_server.files.schema import Fault
from sim_server.log.run_log import ANSWER
from sim_server.records import (
    RECORD_TYPE,
    RecordKind,
    ReplyStatus,
    WaitFlags,
    WaitKind,
    position_of,
)
from sim_server.sources.recorded import records_in

_SLOT = position_of(RecordKind.WAIT, "slot")
_BYTES = position_of(RecordKind.SIGNATURE, "bytes")


class RecordedStep(NamedTuple):
    """A record. Times are in ns of the rank's host."""

    kind: RecordKind
    flags: int
    device: int
    stream: int
    id: int
    site: int
    args: tuple[int, ...]
    gap_ns: int
    """Host time since the step before."""
    time_ns: int
    """When the host came to it."""
    done_ns: int
    """When it went on: later if it waited."""
    is_done: bool
    """A question was answered so."""
    payload: bytes


def recorded_steps(data: RunData, rank: int) -> Iterator[RecordedStep]:
    """All steps of a rank. Raises: UsageError if its records are damaged or not of one process."""
    cells = np.frombuffer(b"".join(data.records(rank)), np.uint8)
    cells = cells[: len(cells) // RECORD_TYPE.itemsize * RECORD_TYPE.itemsize].view(RECORD_TYPE)
    is_record, whole = records_in(cells)
    answers = _answers(data, rank)
    slots: set[int] = set()
    clock_ns = gap_ns = 0
    for position in np.flatnonzero(is_record[:whole]).tolist():
        cell = cells[position]
        args = tuple(cell["arg"].tolist())
        kind, flags, number = RecordKind(int(cell["kind"])), int(cell["flags"]), int(cell["id"])
        gap_ns += int(cell["host_gap_ns"])
        if kind is RecordKind.WAIT and flags & WaitFlags.BACKGROUND:
            continue
        if kind is RecordKind.WAIT and flags & WaitFlags.SUCCEEDS:
            raise UsageError(
                f"{data.path}: rank {rank} is several processes, one after the other; such ranks "
                "are not exported."
            )
        clock_ns += gap_ns
        done_ns, is_done = clock_ns, True
        if kind is RecordKind.WAIT:
            slots.add(args[_SLOT])
            told = answers[args[_SLOT]]
            if told:
                asked_ns, done_ns, is_done = told.popleft()
                if asked_ns != clock_ns:
                    raise _other_time(data, rank, WaitKind(number), slots)
        payload = b""
        if kind.has_payload:
            start = (position + 1) * RECORD_TYPE.itemsize
            payload = cells.view(np.uint8)[start : start + args[_BYTES]].tobytes()
        where = int(cell["device"]), int(cell["stream"])
        yield RecordedStep(
            *(kind, flags, *where, number, int(cell["site"]), args),
            *(gap_ns, clock_ns, done_ns, is_done, payload),
        )
        clock_ns, gap_ns = max(clock_ns, done_ns), 0


def _answers(data: RunData, rank: int) -> defaultdict[int, deque[tuple[int, int, bool]]]:
    """By slot, when the rank asked, when it went on, and whether that was done, in order."""
    told: defaultdict[int, deque[tuple[int, int, bool]]] = defaultdict(deque)
    for piece in data.answers(rank):
        for _, status, slot, asked_ns, time_ns in ANSWER.iter_unpack(piece):
            told[slot].append((asked_ns, time_ns, status == ReplyStatus.DONE))
    return told


def _other_time(data: RunData, rank: int, kind: WaitKind, slots: Collection[int]) -> UsageError:
    """Of a wait that began when one thread, which did all before it, would not have come to it."""
    if len(slots) > 1:
        return UsageError(
            f"{data.path}: threads of rank {rank} wait for the GPU beside each other, and the host "
            "of a trace does one thing after the other; such runs are not exported."
        )
    return UsageError(
        f"{data.path} is damaged: what rank {rank} was told has a {kind.name} at another time"
    )


def signature_of(step: RecordedStep) -> dict[str, Any]:
    """The work that a SIGNATURE announces. Raises: Fault if it is not JSON."""
    try:
        return dict(json.loads(step.payload))
    except ValueError as error:
        raise Fault(f"a signature is not JSON: {error}") from error
