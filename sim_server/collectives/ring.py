"""Ring: each rank receives from one neighbour and sends to the other.

A pipelined ring is a set of steady flows, one per ring edge, not 2(n-1) steps times chunks. Every
edge carries 2(n-1)/n of the buffer for all-reduce and (n-1)/n for all-gather and reduce-scatter;
broadcast and reduce use the ring as a chain, whose edges carry the buffer once.

Across nodes there are as many rings as ranks per node, each with an equal part of the buffer: ring
c enters each node at its rank c, visits the others in order and leaves from rank c-1. So every NIC
has one ring in and one ring out. Flows of different rings on the same edge are merged into one,
which counts once, not several times, when it shares a link with other traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

from sim_server.collectives.group import Group
from sim_server.collectives.shape import Shape, Transfer
from sim_server.records import NcclOpKind


def ring_shape(kind: NcclOpKind, group: Group, root: int) -> Shape | None:
    """Flows of a ring; None for operations that are not done in rings. `root` is a global rank."""
    n, nodes = group.size, len(group.nodes)
    if kind is NcclOpKind.ALL_REDUCE:
        share, steps, turns = 2 * (n - 1) / n, 2 * (n - 1), 2
    elif kind in (NcclOpKind.ALL_GATHER, NcclOpKind.REDUCE_SCATTER):
        share, steps, turns = (n - 1) / n, n - 1, 1
    elif kind in (NcclOpKind.BROADCAST, NcclOpKind.REDUCE):
        return _chain(kind, group, root)
    else:
        return None
    network_steps = min(steps, turns * nodes) if nodes > 1 else 0
    return Shape(
        _merge(group, share, lambda ring: zip(ring, ring[1:] + ring[:1], strict=True)),
        nvlink_steps=steps - network_steps,
        network_steps=network_steps,
        sent_share=share,
        own_share=1 / n,
    )


def _chain(kind: NcclOpKind, group: Group, root: int) -> Shape:
    """Broadcast away from the root, or reduce towards it along the same ring."""

    def edges(ring: list[int]) -> Iterable[tuple[int, int]]:
        at = ring.index(root)
        order = ring[at:] + ring[:at]
        if kind is NcclOpKind.REDUCE:
            order = order[1:] + order[:1]
        return pairwise(order)

    steps = group.size - 1
    network_steps = min(steps, len(group.nodes)) if len(group.nodes) > 1 else 0
    return Shape(
        _merge(group, 1.0, edges),
        nvlink_steps=steps - network_steps,
        network_steps=network_steps,
    )


def _merge(
    group: Group, share: float, edges: Callable[[list[int]], Iterable[tuple[int, int]]]
) -> tuple[Transfer, ...]:
    used: dict[tuple[int, int], int] = {}
    rings = _rings(group)
    for ring in rings:
        for edge in edges(ring):
            used[edge] = used.get(edge, 0) + 1
    return tuple(
        Transfer(source, destination, share * times / len(rings))
        for (source, destination), times in used.items()
    )


def _rings(group: Group) -> list[list[int]]:
    if len(group.nodes) == 1:
        return [list(group.ranks)]
    return [
        [rank for node in group.nodes for rank in node[first:] + node[:first]]
        for first in range(group.rails)
    ]
