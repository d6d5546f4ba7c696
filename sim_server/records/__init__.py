"""The record stream for Python: mirror of csrc/protocol/records.h, which says what fields mean.

Owns no behaviour beyond packing. A test compares every value here with the header.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

import numpy as np

PROTOCOL_VERSION: Final = 1
CELL_BYTES: Final = 64
PREMUL_SUM: Final = 5
FIRST_WITHOUT_PAYLOAD: Final = 16


class RecordKind(IntEnum):
    """What a record says."""

    SIGNATURE = 1
    SITE = 2
    MARKER = 3
    STATISTICS = 4
    UNSUPPORTED = 5
    STREAM_CREATE = 16
    STREAM_DESTROY = 17
    KERNEL = 18
    COPY = 19
    FILL = 20
    EVENT_RECORD = 21
    STREAM_WAIT = 22
    HOST_FUNCTION = 23
    NCCL_LAUNCH = 24
    NCCL_OP = 25
    WAIT = 32
    COMM_DESTROY = 33
    EXIT = 34
    ALLOC = 48
    FREE = 49
    OUT_OF_MEMORY = 50
    SYNTHETIC_READ = 51

    @property
    def has_payload(self) -> bool:
        """Whether `arg[0]` bytes of payload follow, in whole cells."""
        return self < FIRST_WITHOUT_PAYLOAD


class MarkerKind(IntEnum):
    """`id` of a marker."""

    OPTIMIZER_STEP = 1
    ITERATION = 2
    RANGE_PUSH = 3
    RANGE_POP = 4
    CLOCK_READ = 5
    BACKWARD = 6
    PROFILER_STEP = 7
    SCHEDULER_STEP = 8
    CALL = 9


class StreamFlags(IntFlag):
    """`flags` of a stream's creation."""

    NON_BLOCKING = 1


class EventFlags(IntFlag):
    """`flags` of an event record."""

    UNTIMED = 1


class CopyKind(IntEnum):
    """`id` of a copy."""

    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    PEER_TO_PEER = 4
    HOST_TO_HOST = 5


class CopyFlags(IntFlag):
    """`flags` of a copy."""

    PAGEABLE = 1


class MemoryKind(IntEnum):
    """`id` of an allocation."""

    DEVICE = 1
    PINNED_HOST = 2
    CONTEXT = 3
    NCCL = 4
    LIBRARY = 5


class NcclOpKind(IntEnum):
    """`flags` of an NCCL operation."""

    ALL_REDUCE = 1
    BROADCAST = 2
    REDUCE = 3
    ALL_GATHER = 4
    REDUCE_SCATTER = 5
    SEND = 6
    RECV = 7
    ALL_TO_ALL = 8
    GATHER = 9
    SCATTER = 10


class WaitFlags(IntFlag):
    """`flags` of a wait."""

    BACKGROUND = 1


class WaitKind(IntEnum):
    """`id` of a wait."""

    STREAM = 1
    EVENT = 2
    DEVICE = 3
    QUERY_STREAM = 4
    QUERY_EVENT = 5
    ELAPSED = 6
    COMM_INIT = 7
    COMM_SPLIT = 8
    RESUME = 9
    OUTSIDE = 10
    ALARM = 11
    WITHDRAW = 12
    LAUNCH_QUEUE = 13


class ReplyStatus(IntEnum):
    """How a wait is answered."""

    DONE = 0
    NOT_READY = 1
    STOP = 2


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
        ("arg", "<u8", 5),
    ]
)


def payload_cells(payload_bytes: int) -> int:
    """How many cells a payload takes."""
    return -(-payload_bytes // CELL_BYTES)
