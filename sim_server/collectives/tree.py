"""Double binary tree: all-reduce up and down two complementary trees over the nodes.

Each of the two trees carries half of the buffer up (reduced on the way) and the result down again.
A node that is inside one tree is a leaf of the other, so the load is even and latency grows with
the logarithm of the number of nodes. Inside a node the ranks form a chain from the one with the
NIC; there are as many chains and NICs as ranks per node, each with an equal part of the buffer.

Source of the construction: Sanders, Speck and Traff, "Two-tree algorithms for full bandwidth
broadcast, reduction and scan", Parallel Computing 35 (2009).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from sim_server.collectives.group import Group
from sim_server.collectives.shape import Shape, Transfer
from sim_server.records import NcclOpKind


def tree_shape(kind: NcclOpKind, group: Group) -> Shape | None:
    """Flows of the two trees and the chains; None for other operations."""
    if kind is not NcclOpKind.ALL_REDUCE:
        return None
    longest_chain = max(len(node) for node in group.nodes) - 1
    return Shape(
        chains(group) + tuple(between_nodes(group)),
        nvlink_steps=2 * longest_chain,
        network_steps=2 * tree_depth(len(group.nodes)),
        waits=max(tree_depth(len(group.nodes)), 1),
        sent_share=2.0,
    )


def chains(group: Group) -> tuple[Transfer, ...]:
    """Flows inside the nodes: up and down a chain from each rank that has a NIC of its own."""
    amounts: dict[tuple[int, int], float] = {}
    for rail in range(group.rails):
        for node in group.nodes:
            chain = node[rail:] + node[:rail]
            for upper, lower in pairwise(chain):
                for edge in ((upper, lower), (lower, upper)):
                    amounts[edge] = amounts.get(edge, 0.0) + 1 / group.rails
    return tuple(Transfer(*edge, amount) for edge, amount in amounts.items())


def between_nodes(group: Group) -> Iterator[Transfer]:
    """Flows between the ranks of equal number in neighbouring nodes of the two trees, both ways."""
    amounts: dict[tuple[int, int], float] = {}
    for child, parent in double_tree_edges(len(group.nodes)):
        for edge in ((child, parent), (parent, child)):
            amounts[edge] = amounts.get(edge, 0.0) + 0.5
    for (source, destination), amount in amounts.items():
        for rail in range(group.rails):
            yield Transfer(
                group.nodes[source][rail], group.nodes[destination][rail], amount / group.rails
            )


def double_tree_edges(nodes: int) -> list[tuple[int, int]]:
    """(child, parent) of both trees over nodes 0 to nodes - 1.

    The second tree is the first one mirrored for an even number of nodes and shifted by one for an
    odd number, which turns the inner nodes of one into leaves of the other.
    """
    first = [(node, _parent(node, nodes)) for node in range(1, nodes)]
    if nodes % 2 == 0:
        return first + [(nodes - 1 - child, nodes - 1 - parent) for child, parent in first]
    return first + [((child + 1) % nodes, (parent + 1) % nodes) for child, parent in first]


def tree_depth(nodes: int) -> int:
    """Steps from the lowest leaf to the root."""
    return (nodes - 1).bit_length()


def _parent(node: int, nodes: int) -> int:
    """Parent in the tree whose odd nodes are leaves and whose root is node 0."""
    lowest_bit = node & -node
    parent = (node ^ lowest_bit) | (lowest_bit << 1)
    return parent if parent < nodes else node ^ lowest_bit
