"""Pairwise exchange: all-to-all as n(n-1) flows that start together.

NCCL works through the peers in rounds of increasing distance and keeps several rounds under way;
with all rounds under way at once, as here, no link idles between rounds.

Where the network is symmetric the flows are folded (`sim_server.network.folding`): their number
grows with the square of the ranks, that of their classes does not.
"""

from __future__ import annotations

from sim_server.collectives.group import Group
from sim_server.collectives.shape import Shape, Transfer


def pairwise_shape(group: Group, *, folded: bool = False) -> Shape:
    """An n-th of the buffer from every rank to every other, ordered by distance.

    `folded` leaves the transfers out: they come from the fold.
    """
    n = group.size
    share = 1 / n
    transfers = [
        Transfer(rank, group.ranks[(position + distance) % n], share)
        for distance in range(1, n)
        for position, rank in enumerate(group.ranks)
        if not folded
    ]
    crosses = len(group.nodes) > 1
    return Shape(
        tuple(transfers),
        nvlink_steps=0 if crosses else 1,
        network_steps=1 if crosses else 0,
        messages=n - 1,
        network_messages=n - min(map(len, group.nodes)),
        sent_share=(n - 1) * share,
        own_share=share,
        coupled=False,
    )
