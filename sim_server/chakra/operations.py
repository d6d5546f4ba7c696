"""What Chakra calls NCCL's operations and data types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sim_server.chakra.execution_trace_pb2 import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    GATHER,
    REDUCE,
    REDUCE_SCATTER,
    SCATTER,
)
from sim_server.records import NcclOpKind
from sim_server.records.operations import DATA_TYPE_BYTES, PER_RANK_KINDS

COLLECTIVES: Final[Mapping[NcclOpKind, int]] = {
    NcclOpKind.ALL_REDUCE: ALL_REDUCE,
    NcclOpKind.BROADCAST: BROADCAST,
    NcclOpKind.REDUCE: REDUCE,
    NcclOpKind.ALL_GATHER: ALL_GATHER,
    NcclOpKind.REDUCE_SCATTER: REDUCE_SCATTER,
    NcclOpKind.ALL_TO_ALL: ALL_TO_ALL,
    NcclOpKind.GATHER: GATHER,
    NcclOpKind.SCATTER: SCATTER,
}
KINDS: Final = {number: kind for kind, number in COLLECTIVES.items()}

# By ncclDataType_t, as PyTorch names them. Source: nccl.h of NCCL 2.27.
DATA_TYPES: Final[Sequence[str]] = (
    *("int8", "uint8", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
)

EMPTY_SENDS, EMPTY_RECEIVES = "in_split_empty", "out_split_empty"
"""Attributes: the places of peers to which an all-to-all sends nothing, and does so; programs may
leave such a send out.
"""


def size_bytes(kind: NcclOpKind, count: int, dtype: int, members: int) -> int:
    """Of the larger buffer of an operation, from its count as in NCCL's prototype."""
    return count * DATA_TYPE_BYTES[dtype] * (members if kind in PER_RANK_KINDS else 1)


def count_of(kind: NcclOpKind, size: int, dtype: int, members: int) -> int:
    """Inverse of `size_bytes`; at least one element for what is not empty."""
    unit_bytes = DATA_TYPE_BYTES[dtype] * (members if kind in PER_RANK_KINDS else 1)
    return -(-size // unit_bytes)
