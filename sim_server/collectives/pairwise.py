"""Pairwise exchange: all-to-all as n(n-1) flows that start together.

NCCL works through the peers in rounds of increasing distance and keeps several rounds under way;
with all rounds under way at once, as here, no link idles between rounds.
"""

from __future__ import annotations

from sim_server.collectives.group import Group
from sim_server.collectives.shape import Shape, Transfer


def pairwise_shape(group: Group) -> Shape:
    """An n-th of the buffer from every rank to every other, ordered by distance."""
    n = group.size
    share = 1 / n
    transfers = [
        Transfer(rank, group.ranks[(position + distance) % n], share)
        for distance in range(1, n)
        for position, rank in enumerate(group.ranks)
    ]
    crosses = len(group.nodes) > 1
    return Shape(
        tuple(transfers),
        nvlink_steps=0 if crosses else 1,
        network_steps=1 if crosses else 0,
        messages=n - 1,
        sent_share=(n - 1) * share,
        own_share=share,
        coupled=False,
    )
