"""NVLS: all-reduce inside the NVSwitch, and its combination with trees between nodes.

Each GPU owns an n-th of the buffer. It reads that part through the switch, which fetches it from
all n GPUs and returns their sum, and writes the result through the switch to all of them. So a
GPU's link carries the buffer plus an n-th of it in each direction. Between nodes (NVLS tree) every
rank takes its own part up and down the two trees of `sim_server.collectives.tree`.
"""

from __future__ import annotations

from sim_server.collectives.group import Group
from sim_server.collectives.shape import Shape, Transfer
from sim_server.collectives.tree import between_nodes, tree_depth
from sim_server.operations import Operation
from sim_server.records import NcclOpKind

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
    if kind is not NcclOpKind.ALL_REDUCE or len(group.nodes) > 1 or group.size < 3:
        return None
    return Shape(_through_switch(group), nvlink_steps=4, sent_share=1 + 1 / group.size)


def nvls_tree_shape(kind: NcclOpKind, group: Group) -> Shape | None:
    """Flows inside and between nodes; None where there is one node or a rank is alone on its
    node."""
    if kind is not NcclOpKind.ALL_REDUCE or len(group.nodes) == 1 or group.rails < 3:
        return None
    return Shape(
        _through_switch(group) + tuple(between_nodes(group)),
        nvlink_steps=4,
        network_steps=2 * tree_depth(len(group.nodes)),
        sent_share=1 + 1 / group.rails,
    )


def _through_switch(group: Group) -> tuple[Transfer, ...]:
    transfers = []
    for node in group.nodes:
        share = 1 + 1 / len(node)
        for rank in node:
            transfers += [Transfer(rank, None, share), Transfer(None, rank, share)]
    return tuple(transfers)
