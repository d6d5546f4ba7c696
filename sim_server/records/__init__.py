"""The record stream for Python. `schema` says what there is and what fields mean.

Owns no behaviour beyond packing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from sim_server.records.schema import (
    ARGS,
    CELL_BYTES,
    FIRST_WITHOUT_PAYLOAD,
    LAYOUTS,
    PREMUL_SUM,
    PROTOCOL_VERSION,
    WAIT_LAYOUTS,
    CopyFlags,
    CopyKind,
    EventFlags,
    MarkerKind,
    MemoryKind,
    NcclOpKind,
    RecordKind,
    ReplyStatus,
    StreamFlags,
    WaitFlags,
    WaitKind,
)

__all__ = [
    "CELL_BYTES",
    "FIRST_WITHOUT_PAYLOAD",
    "PREMUL_SUM",
    "PROTOCOL_VERSION",
    "RECORD_TYPE",
    "CopyFlags",
    "CopyKind",
    "EventFlags",
    "MarkerKind",
    "MemoryKind",
    "NcclOpKind",
    "RecordKind",
    "ReplyStatus",
    "StreamFlags",
    "WaitFlags",
    "WaitKind",
    "named_args",
    "payload_cells",
    "position_of",
]

# One cell. Payload cells follow their record and are not of this type.
RECORD_TYPE: Final = np.dtype(
    [
        ("kind", "u1"),
        ("flags", "u1"),
        ("device", "<u2"),
        ("stream", "<u4"),
        ("host_gap_ns", "<u8"),
        ("id", "<u4"),
        ("site", "<u4"),
        ("arg", "<u8", ARGS),
    ]
)


def payload_cells(payload_bytes: int) -> int:
    """How many cells a payload takes."""
    return -(-payload_bytes // CELL_BYTES)


def position_of(kind: RecordKind, name: str) -> int:
    """Where records of a kind keep that, in `arg`."""
    return LAYOUTS[kind].args[name].position


def named_args(
    kind: RecordKind, words: Sequence[int], wait: WaitKind | None = None
) -> dict[str, int]:
    """What a record keeps in `arg`, by the names of the schema. `wait`: of what kind a wait is."""
    args = {**LAYOUTS[kind].args, **(WAIT_LAYOUTS[wait].args if wait is not None else {})}
    return {name: words[arg.position] for name, arg in args.items()}
