"""How the ranks of a communicator lie: the same words for all communicators of one dimension."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from sim_server.deadlock import ranges_text


def layout_text(members: Sequence[int], node_of: Callable[[int], int], noun: str = "rank") -> str:
    """Size, nodes and stride of a collective's members, in the order of the communicator.

    `noun`: what they are called.
    """
    size = len(members)
    if size == 1:
        return f"1 {noun}"
    nodes = len({node_of(member) for member in members})
    where = "of a node" if nodes == 1 else f"on {nodes} nodes"
    ordered = sorted(members)
    strides = {after - before for before, after in itertools.pairwise(ordered)}
    if len(strides) > 1:
        return f"{size} {noun}s {where}: {ranges_text(members)}"
    (stride,) = strides
    return f"{size} {noun}s {where}" + ("" if stride == 1 else f", every {_ordinal(stride)}")


def pair_text(
    source: int, destination: int, node_of: Callable[[int], int], noun: str = "rank"
) -> str:
    """Direction and reach of a send: the same for all pairs of neighbours in a pipeline."""
    step = destination - source
    crosses = node_of(source) != node_of(destination)
    where = "another node" if crosses else "the same node"
    return f"{noun} {step:+d}, on {where}" if step else "itself"


def _ordinal(number: int) -> str:
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else suffix}"
