"""PAT, parallel aggregated trees: all-gather and reduce-scatter in logarithmically many steps.

The pattern is Bruck's: with distance d = 1, 2, 4 ... a rank passes on to the rank d further what it
has by then, at most d parts of the buffer. So a rank sends as much as in a ring, in log2 n steps.

Source of the conditions (one rank a node, Simple, no scaled sums): ncclPatEnable in
src/graph/tuning.cc and updateCollCostTable in src/enqueue.cc of NCCL 2.24.
"""

from __future__ import annotations

from sim_server.collectives.group import Group
from sim_server.collectives.shape import Shape, Transfer
from sim_server.records import NcclOpKind


def pat_shape(kind: NcclOpKind, group: Group) -> Shape | None:
    """Flows of each distance; None for other operations and where a node has several ranks."""
    if kind not in (NcclOpKind.ALL_GATHER, NcclOpKind.REDUCE_SCATTER):
        return None
    n = group.size
    if len(group.nodes) != n:
        return None
    transfers = []
    distance = 1
    while distance < n:
        share = min(distance, n - distance) / n
        for position, rank in enumerate(group.ranks):
            other = group.ranks[(position + distance) % n]
            ends = (rank, other) if kind is NcclOpKind.ALL_GATHER else (other, rank)
            transfers.append(Transfer(*ends, share))
        distance *= 2
    return Shape(
        tuple(transfers),
        network_steps=(n - 1).bit_length(),
        messages=n,
        sent_share=(n - 1) / n,
        own_share=1 / n,
    )
