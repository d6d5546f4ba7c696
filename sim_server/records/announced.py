"""What ranks say about themselves beside their work, checked before anybody uses it.

`payloads` has the forms. A payload that has another raises MalformedInput, which names the rank.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from sim_server._engine import Announcement, MalformedInput
from sim_server.records import MarkerKind, MemoryKind, RecordKind, named_args
from sim_server.records.forms import check_count, check_payload, payload_of
from sim_server.records.payloads import SIGNATURES, UnsupportedCall
from sim_server.records.python_statistics import STATISTICS

_STATUSES: Final = range(-(1 << 31), 1 << 32)


def check(announcement: Announcement) -> None:
    """Raises: MalformedInput if it is not of the form that its kind has."""
    kind = RecordKind(announcement.kind)
    try:
        _check(kind, announcement)
    except (ValueError, RecursionError) as error:
        raise malformed(announcement, str(error)) from None


def malformed(announcement: Announcement, what: str) -> MalformedInput:
    """The error that an announcement is."""
    kind = RecordKind(announcement.kind).name.lower().replace("_", " ")
    return MalformedInput(f"rank {announcement.rank}, an announcement of kind {kind}: {what}")


def _check(kind: RecordKind, announcement: Announcement) -> None:
    args = named_args(kind, announcement.args)
    if kind is RecordKind.SIGNATURE:
        _check_payload(announcement.payload, SIGNATURES)
    elif kind is RecordKind.UNSUPPORTED:
        check_payload(json.loads(announcement.payload), UnsupportedCall)
    elif kind is RecordKind.STATISTICS:
        _check_payload(announcement.payload, STATISTICS)
    elif kind in {RecordKind.ALLOC, RecordKind.FREE, RecordKind.OUT_OF_MEMORY}:
        if kind is not RecordKind.OUT_OF_MEMORY and announcement.id not in list(MemoryKind):
            raise ValueError(f"memory of kind {announcement.id}")
        for value in args.values():
            check_count(value)
    elif kind is RecordKind.MARKER and announcement.id not in list(MarkerKind):
        raise ValueError(f"a mark of kind {announcement.id}")
    elif kind is RecordKind.SYNTHETIC_READ:
        check_count(args["bytes"])
    elif kind is RecordKind.EXIT and signed(args["status"]) not in _STATUSES:
        raise ValueError(f"the status {args['status']}")


def _check_payload(payload: bytes, classes: Sequence[type]) -> None:
    told = json.loads(payload)
    check_payload(told, payload_of(told, classes))


def signed(word: int) -> int:
    """A 64-bit word of a record as the signed integer that the rank put there."""
    return word - (1 << 64) if word >> 63 else word


def text_of(announcement: Announcement) -> str:
    """A name or a Python line. File names are bytes, and so are the names of ranges."""
    return announcement.payload.decode(errors="replace")
