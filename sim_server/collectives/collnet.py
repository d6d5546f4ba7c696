"""CollNet: the network's switches add up and distribute (NVIDIA SHARP).

A rank sends its part of a sum to the switch above its NIC and receives the result from there; what
the switches exchange among themselves is one stream for each leaf, which is taken to be no limit
(assumed). Inside a node the parts are brought together before, and the results distributed after:
each rank with each other (direct), along chains, or by the NVSwitch (NVLS). There are as many
parts as ranks in a node, each with a NIC.

All-gather and reduce-scatter are direct only; they send one part up and receive all others, or the
other way round. Source of the conditions: src/graph/tuning.cc and src/enqueue.cc of NCCL 2.24.
"""

from __future__ import annotations

from itertools import permutations

from sim_server.collectives.group import Group
from sim_server.collectives.nvls import through_switch
from sim_server.collectives.shape import Shape, Switch, Transfer
from sim_server.collectives.tree import chains
from sim_server.records import NcclOpKind

# NCCL_MAX_DIRECT_ARITY + 1 in src/include/device.h of NCCL 2.24.
_MOST_DIRECT_RANKS = 8


def collnet_direct_shape(kind: NcclOpKind, group: Group, nics_per_node: int) -> Shape | None:
    """Every rank with every other of its node, then each with its NIC; None where it cannot be."""
    ranks = max(map(len, group.nodes))
    if len(group.nodes) == 1 or ranks > _MOST_DIRECT_RANKS:
        return None
    up = down = 1 / group.rails
    inside = 2 / group.rails
    if kind in (NcclOpKind.ALL_GATHER, NcclOpKind.REDUCE_SCATTER):
        if ranks > nics_per_node:
            return None
        up, down, inside = 1 / group.size, 1 / group.rails - 1 / group.size, 1 / group.rails
        if kind is NcclOpKind.REDUCE_SCATTER:
            up, down = down, up
    elif kind is not NcclOpKind.ALL_REDUCE:
        return None
    pairs = (pair for node in group.nodes for pair in permutations(node, 2))
    return Shape(
        tuple(Transfer(*pair, inside) for pair in pairs) + _to_fabric(group, up, down),
        nvlink_steps=min(ranks - 1, 1) * (2 if kind is NcclOpKind.ALL_REDUCE else 1),
        network_steps=1,
        messages=2 * (ranks - 1),
        sent_share=max(up, down) + (ranks - 1) * inside,
    )


def collnet_chain_shape(kind: NcclOpKind, group: Group) -> Shape | None:
    """All-reduce along a chain to each NIC, and back."""
    if kind is not NcclOpKind.ALL_REDUCE or len(group.nodes) == 1:
        return None
    share = 1 / group.rails
    return Shape(
        chains(group) + _to_fabric(group, share, share),
        nvlink_steps=2 * (max(map(len, group.nodes)) - 1),
        network_steps=1,
        sent_share=2.0,
    )


def nvls_sharp_shape(kind: NcclOpKind, group: Group) -> Shape | None:
    """All-reduce by the NVSwitch in each node, and by the network's switches between nodes."""
    if kind is not NcclOpKind.ALL_REDUCE or len(group.nodes) == 1 or group.rails < 3:
        return None
    share = 1 / group.rails
    return Shape(
        through_switch(group) + _to_fabric(group, share, share),
        nvlink_steps=4,
        network_steps=1,
        sent_share=1 + share,
    )


def _to_fabric(group: Group, up: float, down: float) -> tuple[Transfer, ...]:
    return tuple(
        transfer
        for node in group.nodes
        for rank in node[: group.rails]
        for transfer in (
            Transfer(rank, Switch.FABRIC, up),
            Transfer(Switch.FABRIC, rank, down),
        )
    )
