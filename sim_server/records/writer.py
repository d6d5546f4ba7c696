"""Writes records by the names of their fields: for whoever plays a rank.

signature(1, {"kind": "gemm", ...}) + record(RecordKind.KERNEL, stream=7, id=1)
wait(WaitKind.EVENT, slot=0, instance=3, host_gap_ns=1000)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from sim_server.records import CELL_BYTES, RECORD_TYPE, RecordKind, WaitKind, payload_cells
from sim_server.records.schema import LAYOUTS, WAIT_LAYOUTS, Arg

_WORD = (1 << 64) - 1
_FIELDS = frozenset(RECORD_TYPE.names or ()) - {"kind", "arg"}


def record(kind: RecordKind, **fields: int) -> bytes:
    """One record. `fields`: those of every record and those that `schema` names for this kind.

    Raises: TypeError for a field that the kind has not.
    """
    return _pack(kind, LAYOUTS[kind].args, fields)


def wait(kind: WaitKind, slot: int = 0, **fields: int) -> bytes:
    """The record of a wait. Raises: TypeError for a field that a wait of this kind has not."""
    args = {**LAYOUTS[RecordKind.WAIT].args, **WAIT_LAYOUTS[kind].args}
    return _pack(RecordKind.WAIT, args, {"id": kind, "slot": slot, **fields})


def announcement(kind: RecordKind, payload: bytes, **fields: int) -> bytes:
    """A record and its payload, in whole cells."""
    padded = payload.ljust(payload_cells(len(payload)) * CELL_BYTES, b"\0")
    return record(kind, bytes=len(payload), **fields) + padded


def signature(number: int, work: Mapping[str, Any]) -> bytes:
    """Announces the work of a kernel (docs/records.md) under a number."""
    return announcement(RecordKind.SIGNATURE, json.dumps(work).encode(), id=number)


def _pack(kind: RecordKind, args: Mapping[str, Arg], fields: Mapping[str, int]) -> bytes:
    made = np.zeros((), RECORD_TYPE)
    made["kind"] = kind
    for name, value in fields.items():
        if name in args:
            made["arg"][args[name].position] = value & _WORD
        elif name in _FIELDS:
            made[name] = value
        else:
            raise TypeError(f"a record of kind {kind.name} has no field '{name}'")
    return made.tobytes()
