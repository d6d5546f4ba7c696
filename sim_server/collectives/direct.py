"""Direct transfers: send and receive, gather and scatter.

Every pair of ranks has a flow of its own; all start together, as they do in a group of NCCL sends
and receives that fits into its channels. A rank ends when its own flows have ended.
"""

from __future__ import annotations

from sim_server.collectives.group import Group
from sim_server.collectives.shape import Shape, Transfer
from sim_server.operations import NcclOpKind


def send_shape(group: Group) -> Shape:
    """One flow from the first rank of the group to the second."""
    source, destination = group.ranks
    crosses = group.crosses(source, destination)
    return Shape(
        (Transfer(source, destination, 1.0),),
        nvlink_steps=0 if crosses else 1,
        network_steps=1 if crosses else 0,
        messages=1,
        coupled=False,
    )


def rooted_shape(kind: NcclOpKind, group: Group, root: int) -> Shape:
    """Gather to the root or scatter from it, an n-th of the buffer for each other rank."""
    others = [rank for rank in group.ranks if rank != root]
    share = 1 / group.size
    pairs = [(rank, root) if kind is NcclOpKind.GATHER else (root, rank) for rank in others]
    crosses = len(group.nodes) > 1
    return Shape(
        tuple(Transfer(source, destination, share) for source, destination in pairs),
        nvlink_steps=0 if crosses else 1,
        network_steps=1 if crosses else 0,
        messages=len(others),
        sent_share=len(others) * share,
        own_share=share,
        coupled=False,
    )
