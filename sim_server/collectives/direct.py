"""Direct transfers: sends and receives, gather and scatter.

Every pair of ranks has a flow of its own; all start together, as they do in a group of NCCL sends
and receives that fits into its channels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sim_server.collectives.group import Group
from sim_server.collectives.shape import Shape, Transfer
from sim_server.records import NcclOpKind


def exchange_shape(sends: Sequence[tuple[int, int, int]], group: Group) -> Shape:
    """Sends of one launch as (source, destination, bytes); the buffer is all their bytes."""
    total_bytes = sum(size_bytes for _, _, size_bytes in sends)
    sent_bytes: Counter[int] = Counter()
    messages: Counter[int] = Counter()
    network_messages: Counter[int] = Counter()
    for source, destination, size_bytes in sends:
        sent_bytes[source] += size_bytes
        messages[source] += 1
        network_messages[source] += group.crosses(source, destination)
    crosses = any(network_messages.values())
    return Shape(
        tuple(Transfer(one, other, size_bytes / total_bytes) for one, other, size_bytes in sends),
        nvlink_steps=0 if crosses else 1,
        network_steps=1 if crosses else 0,
        messages=max(messages.values()),
        network_messages=max(network_messages.values()),
        sent_share=max(sent_bytes.values()) / total_bytes,
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
        network_messages=sum(group.crosses(root, rank) for rank in others),
        sent_share=len(others) * share,
        own_share=share,
        coupled=False,
    )
