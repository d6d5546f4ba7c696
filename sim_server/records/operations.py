"""Communication operations as the record stream names them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sim_server.records import NcclOpKind

# Bytes of an element by ncclDataType_t. Source: nccl.h of NCCL 2.27.
DATA_TYPE_BYTES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)

# Kinds whose `count` is per rank (or per pair of ranks) rather than of the whole buffer.
PER_RANK_KINDS = frozenset(
    {
        NcclOpKind.ALL_GATHER,
        NcclOpKind.REDUCE_SCATTER,
        NcclOpKind.ALL_TO_ALL,
        NcclOpKind.GATHER,
        NcclOpKind.SCATTER,
    }
)


@dataclass(frozen=True)
class Operation:
    """One collective, or one matched pair of send and receive.

    For a pair, `kind` is SEND (RECV is accepted and means the same transfer) and the participants
    are `source` and `destination`; for a collective they are `members`.
    """

    kind: NcclOpKind
    count: int
    """Elements, as in NCCL's prototype: of the whole buffer for all-reduce, broadcast, reduce, send
    and recv; what one rank contributes for all-gather and gather; what one rank receives for
    reduce-scatter and scatter; what each rank sends to each for all-to-all."""
    dtype: int
    """ncclDataType_t."""
    members: tuple[int, ...] = ()
    """GPUs in communicator order."""
    root: int = 0
    """Rank in the communicator, of the root of broadcast, reduce, gather and scatter."""
    source: int = -1
    """GPU that sends, for SEND and RECV."""
    destination: int = -1
    """GPU that receives, for SEND and RECV."""
    reduction: int = 0
    """ncclRedOp_t of all-reduce, reduce and reduce-scatter; 0 is a sum."""
    is_gathered: bool = False
    """See `Communicators.takes_part_in_gather`."""

    def of(self, members: tuple[int, ...]) -> Operation:
        """The same operation of other members, each in the place of one of these."""
        places = dict(zip(self.members, members, strict=True))
        return replace(
            self,
            members=members,
            source=places.get(self.source, -1),
            destination=places.get(self.destination, -1),
        )

    @property
    def is_point_to_point(self) -> bool:
        """Whether this is a matched pair of send and receive."""
        return self.kind in (NcclOpKind.SEND, NcclOpKind.RECV)

    @property
    def participants(self) -> tuple[int, ...]:
        """GPUs in the order in which end times are returned."""
        return (self.source, self.destination) if self.is_point_to_point else self.members

    @property
    def buffer_bytes(self) -> int:
        """Size of the larger buffer of the operation: "size" in the output of nccl-tests.

        Units: bytes. Raises: ValueError for a data type that NCCL does not have.
        """
        if not 0 <= self.dtype < len(DATA_TYPE_BYTES):
            raise ValueError(f"{self.dtype} is not an ncclDataType_t")
        size_bytes = self.count * DATA_TYPE_BYTES[self.dtype]
        return size_bytes * len(self.members) if self.kind in PER_RANK_KINDS else size_bytes
