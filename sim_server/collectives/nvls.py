"""NVLS: operations inside the NVSwitch, and their combination with trees between nodes.

Each GPU owns an n-th of the buffer. It reads that part through the switch, which fetches it from
all n GPUs and returns their sum, and writes the result through the switch to all of them. So a
GPU's link carries the buffer plus an n-th of it in each direction. Between nodes (NVLS tree) every
rank takes its own part up and down the two trees of `sim_server.collectives.tree`.

All-gather and reduce-scatter use one half of that: a GPU sends its n-th and receives the buffer, or
the other way round. A ring moves (n-1)/n of the buffer in either direction, which is less than the
buffer in one, so that NVLS is no faster. Source: NVIDIA's answers in NVIDIA/nccl issues 1083 and
1506.
"""

from __future__ import annotations

from sim_server.collectives.group import Group
from sim_server.collectives.shape import Shape, Switch, Transfer
from sim_server.collectives.tree import between_nodes, tree_depth
from sim_server.records import NcclOpKind
from sim_server.records.operations import Operation

# The switch adds these: ncclInt32 to ncclBfloat16, without ncclInt8, ncclUint8 and the 8-bit
# floats. Source: measured; nccl-tests with int8 on 8 H100 runs at the speed of a ring, with half it
# does not.
_SUMMED_BY_SWITCH = frozenset(range(2, 10))

_NCCL_SUM = 0


def switch_can_reduce(operation: Operation) -> bool:
    """Whether the NVSwitch can do this operation's arithmetic. Averages are scaled sums: it
    cannot."""
    return operation.dtype in _SUMMED_BY_SWITCH and operation.reduction == _NCCL_SUM


def nvls_shape(kind: NcclOpKind, group: Group) -> Shape | None:
    """Flows inside one node; None for other operations, several nodes and fewer than three
    ranks."""
    if len(group.nodes) > 1 or group.size < 3:
        return None
    if kind is NcclOpKind.ALL_REDUCE:
        return Shape(through_switch(group), nvlink_steps=4, sent_share=1 + 1 / group.size)
    if kind is NcclOpKind.ALL_GATHER:
        return Shape(_one_way(group, 1 / group.size, 1.0), nvlink_steps=2)
    if kind is NcclOpKind.REDUCE_SCATTER:
        return Shape(_one_way(group, 1.0, 1 / group.size), nvlink_steps=2)
    return None


def nvls_tree_shape(kind: NcclOpKind, group: Group) -> Shape | None:
    """Flows inside and between nodes; None where there is one node or a rank is alone on its
    node."""
    if kind is not NcclOpKind.ALL_REDUCE or len(group.nodes) == 1 or group.rails < 3:
        return None
    return Shape(
        through_switch(group) + tuple(between_nodes(group)),
        nvlink_steps=4,
        network_steps=2 * tree_depth(len(group.nodes)),
        waits=tree_depth(len(group.nodes)),
        sent_share=1 + 1 / group.rails,
    )


def through_switch(group: Group) -> tuple[Transfer, ...]:
    """Flows of an all-reduce in each node."""
    transfers = []
    for node in group.nodes:
        share = 1 + 1 / len(node)
        for rank in node:
            transfers += [
                Transfer(rank, Switch.NVLINK, share),
                Transfer(Switch.NVLINK, rank, share),
            ]
    return tuple(transfers)


def _one_way(group: Group, sent: float, received: float) -> tuple[Transfer, ...]:
    return tuple(
        transfer
        for rank in group.ranks
        for transfer in (
            Transfer(rank, Switch.NVLINK, sent),
            Transfer(Switch.NVLINK, rank, received),
        )
    )
