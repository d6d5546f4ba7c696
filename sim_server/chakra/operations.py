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

COMM_SIZE_OF = "comm_size_of"
"""In our metadata: the buffer whose bytes `comm_size` has."""
EMPTY_SENDS, EMPTY_RECEIVES = "in_split_empty", "out_split_empty"
"""Attributes: the places of peers to which an all-to-all sends nothing, and does so; programs may
leave such a send out.
"""


_WHOLE_KINDS = PER_RANK_KINDS - {NcclOpKind.ALL_GATHER, NcclOpKind.GATHER}
"""Whose input has a part for each rank, of which NCCL's prototype counts one."""


def size_bytes(kind: NcclOpKind, count: int, dtype: int, members: int) -> int:
    """Of the input of an operation, a scatter's at its root, from its count in NCCL's prototype.

    Chakra does not define `comm_size`. Its converter takes the inputs (pytorch_node.py of
    mlc-chakra 1.0.0), and so does ASTRA-sim, whose all-gather makes as many times of it as there
    are ranks (Ring.cc).
    """
    return count * DATA_TYPE_BYTES[dtype] * (members if kind in _WHOLE_KINDS else 1)


def count_of(kind: NcclOpKind, size: int, dtype: int, members: int) -> int:
    """Inverse of `size_bytes`; at least one element for what is not empty."""
    unit_bytes = DATA_TYPE_BYTES[dtype] * (members if kind in _WHOLE_KINDS else 1)
    return -(-size // unit_bytes)
