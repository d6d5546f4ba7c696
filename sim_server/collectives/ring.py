"""Ring: each rank receives from one neighbour and sends to the other.

A pipelined ring is a set of steady flows, one per ring edge, not 2(n-1) steps times chunks. Every
edge carries 2(n-1)/n of the buffer for all-reduce and (n-1)/n for all-gather and reduce-scatter;
broadcast and reduce use the ring as a chain, whose edges carry the buffer once.

Across nodes there are as many rings as ranks per node, each with an equal part of the buffer: ring
c enters each node at its rank c, visits the others in order and leaves from rank c-1. So every NIC
has one ring in and one ring out. Flows of different rings on the same edge are merged into one,
which counts once, not several times, when it shares a link with other traffic.

That changes the rail between two nodes: ring c leaves by NIC c-1 and enters by NIC c, unless PXN
carries the bytes over NVLink to the GPU of NIC c first. Alternating rings keep to the rail without
that: they go through every other node backwards, so that what has left by NIC c-1 enters by NIC
c-1. They need an even number of equal nodes. Source: release notes of NCCL 2.20.3, "alternating
rings, allow for cross-nic rings without cross-rail communication".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from sim_server.collectives.group import Group
from sim_server.collectives.shape import Shape, Transfer
from sim_server.records import NcclOpKind

Rings = Sequence[Sequence[int]]
"""The ranks of each ring, in order."""


def ring_shape(
    kind: NcclOpKind, group: Group, root: int, *, alternating: bool = False
) -> Shape | None:
    """Flows of a ring; None for operations that are not done in rings. `root` is a global rank."""
    rings = _rings(group, alternating)
    n, nodes = group.size, len(group.nodes)
    if kind is NcclOpKind.ALL_REDUCE:
        share, steps, turns = 2 * (n - 1) / n, 2 * (n - 1), 2
    elif kind in (NcclOpKind.ALL_GATHER, NcclOpKind.REDUCE_SCATTER):
        share, steps, turns = (n - 1) / n, n - 1, 1
    elif kind in (NcclOpKind.BROADCAST, NcclOpKind.REDUCE):
        return _chain(kind, group, root, rings)
    else:
        return None
    network_steps = min(steps, turns * nodes) if nodes > 1 else 0
    return Shape(
        _merge(rings, share, lambda ring: zip(ring, [*ring[1:], ring[0]], strict=True)),
        nvlink_steps=steps - network_steps,
        network_steps=network_steps,
        waits=steps if network_steps else 1,
        part_share=1 / n if network_steps else None,
        sent_share=share,
        own_share=1 / n,
    )


def _chain(kind: NcclOpKind, group: Group, root: int, rings: Rings) -> Shape:
    """Broadcast away from the root, or reduce towards it along the same ring."""

    def edges(ring: Sequence[int]) -> Iterable[tuple[int, int]]:
        at = ring.index(root)
        order = [*ring[at:], *ring[:at]]
        if kind is NcclOpKind.REDUCE:
            order = order[1:] + order[:1]
        return pairwise(order)

    steps = group.size - 1
    network_steps = min(steps, len(group.nodes)) if len(group.nodes) > 1 else 0
    return Shape(
        _merge(rings, 1.0, edges),
        nvlink_steps=steps - network_steps,
        network_steps=network_steps,
    )


def _merge(
    rings: Rings, share: float, edges: Callable[[Sequence[int]], Iterable[tuple[int, int]]]
) -> tuple[Transfer, ...]:
    used: dict[tuple[int, int], int] = {}
    for ring in rings:
        for edge in edges(ring):
            used[edge] = used.get(edge, 0) + 1
    return tuple(
        Transfer(source, destination, share * times / len(rings))
        for (source, destination), times in used.items()
    )


def _rings(group: Group, alternating: bool) -> Rings:
    if len(group.nodes) == 1:
        return [list(group.ranks)]
    backwards = alternating and len(group.nodes) % 2 == 0 and len(set(map(len, group.nodes))) == 1
    rings = []
    for first in range(group.rails):
        ring: list[int] = []
        for number, node in enumerate(group.nodes):
            order = node[first:] + node[:first]
            ring += order[::-1] if backwards and number % 2 else order
        rings.append(ring)
    return rings
