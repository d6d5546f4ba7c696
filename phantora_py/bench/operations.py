"""The operations of nccl-tests: what "size" and "bus bandwidth" mean for each.

Source: src/all_reduce.cu and its neighbours in NVIDIA/nccl-tests (2.13 and later), and
doc/PERFORMANCE.md there for the reasons. Size is that of the largest buffer of a rank; algorithm
bandwidth is size over time; bus bandwidth multiplies it by the part of the size that has to pass
the busiest link of an ideal algorithm.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from sim_server.errors import UsageError
from sim_server.records import NcclOpKind
from sim_server.records.operations import DATA_TYPE_BYTES, PER_RANK_KINDS, Operation

DATA_TYPES = {
    **{"int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5},
    **{"half": 6, "float": 7, "double": 8, "bfloat16": 9, "f8e4m3": 10, "f8e5m2": 11},
}
"""ncclDataType_t by the names that nccl-tests prints."""

REDUCTIONS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}
"""ncclRedOp_t by the names that nccl-tests prints."""

# Parts of a buffer start at multiples of this many bytes.
_ALIGNMENT_BYTES = 16


def bus_factor(kind: NcclOpKind, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth of an operation of so many ranks."""
    if kind is NcclOpKind.ALL_REDUCE:
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if kind in PER_RANK_KINDS else 1.0


@dataclass(frozen=True)
class BenchOperation:
    """An operation as nccl-tests measures it."""

    name: str
    kind: NcclOpKind
    splits: bool = False
    """Whether the size is that of all ranks' parts together."""
    reduces: bool = False
    """Whether nccl-tests names a reduction; for sendrecv it does, to no purpose."""
    rooted: bool = False
    """Whether one rank is the root."""

    def count(self, size_bytes: int, dtype: int, ranks: int) -> int:
        """Elements as in NCCL's prototype for a size that was asked for; 0 if it is too small."""
        element_bytes = DATA_TYPE_BYTES[dtype]
        elements = size_bytes // element_bytes
        if not self.splits:
            return elements
        aligned = _ALIGNMENT_BYTES // element_bytes
        return elements // ranks // aligned * aligned

    def size_bytes(self, count: int, dtype: int, ranks: int) -> int:
        """Size as it is printed."""
        return count * DATA_TYPE_BYTES[dtype] * (ranks if self.splits else 1)

    def bus_factor(self, ranks: int) -> float:
        """Bus bandwidth over algorithm bandwidth."""
        return bus_factor(self.kind, ranks)

    def launches(
        self, ranks: Sequence[int], count: int, dtype: int, reduction: int
    ) -> list[Operation]:
        """What NCCL launches together: one operation, or every rank's send to the next."""
        if self.kind is NcclOpKind.SEND:
            following = (*ranks[1:], ranks[0])
            return [
                Operation(self.kind, count, dtype, source=source, destination=destination)
                for source, destination in zip(ranks, following, strict=True)
            ]
        return [Operation(self.kind, count, dtype, tuple(ranks), reduction=reduction)]


_OPERATIONS = {
    one.name: one
    for one in (
        BenchOperation("all_reduce", NcclOpKind.ALL_REDUCE, reduces=True),
        BenchOperation("all_gather", NcclOpKind.ALL_GATHER, splits=True),
        BenchOperation("reduce_scatter", NcclOpKind.REDUCE_SCATTER, splits=True, reduces=True),
        BenchOperation("alltoall", NcclOpKind.ALL_TO_ALL, splits=True),
        BenchOperation("broadcast", NcclOpKind.BROADCAST, rooted=True),
        BenchOperation("reduce", NcclOpKind.REDUCE, reduces=True, rooted=True),
        BenchOperation("sendrecv", NcclOpKind.SEND, reduces=True),
        BenchOperation("gather", NcclOpKind.GATHER, splits=True, rooted=True),
        BenchOperation("scatter", NcclOpKind.SCATTER, splits=True, rooted=True),
    )
}


def find_operation(name: str) -> BenchOperation:
    """The operation of this name; nccl-tests' program names are understood too.

    Raises: UsageError.
    """
    plain = name.removesuffix("_perf").replace("-", "_")
    operation = _OPERATIONS.get({"all_to_all": "alltoall"}.get(plain, plain))
    if operation is None:
        near = difflib.get_close_matches(plain, _OPERATIONS, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise UsageError(
            f"there is no operation '{name}'; {hint}There are {', '.join(_OPERATIONS)}"
        )
    return operation
