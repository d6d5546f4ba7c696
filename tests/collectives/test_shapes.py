"""What the algorithms move."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from sim_server.collectives.group import Group
from sim_server.collectives.nvls import nvls_tree_shape
from sim_server.collectives.pairwise import pairwise_shape
from sim_server.collectives.ring import ring_shape
from sim_server.collectives.shape import Shape
from sim_server.collectives.tree import double_tree_edges, tree_shape
from sim_server.network import Gpu
from sim_server.records import NcclOpKind


def group_of(*ranks_per_node: int) -> Group:
    """A group with this many ranks on each node."""
    gpus = [Gpu(node, gpu) for node, ranks in enumerate(ranks_per_node) for gpu in range(ranks)]
    return Group(range(len(gpus)), gpus)


def traffic(shape: Shape | None, rank: int) -> tuple[Any, Any]:
    """What a rank sends and receives, per byte of the buffer."""
    assert shape is not None
    sent = sum(transfer.share for transfer in shape.transfers if transfer.source == rank)
    received = sum(transfer.share for transfer in shape.transfers if transfer.destination == rank)
    return pytest.approx(sent), pytest.approx(received)


@pytest.mark.parametrize("nodes", range(2, 34))
def test_double_tree_is_two_balanced_trees(nodes: int) -> None:
    """Each tree reaches every node once; no node is inside both; no node has more than 4
    neighbours."""
    edges = double_tree_edges(nodes)
    for tree in (edges[: nodes - 1], edges[nodes - 1 :]):
        parent = dict(tree)
        assert len(parent) == nodes - 1
        (root,) = set(range(nodes)) - set(parent)
        for node in range(nodes):
            steps = 0
            while node != root:
                node, steps = parent[node], steps + 1  # noqa: PLW2901 - walks up
                assert steps <= (nodes - 1).bit_length()
    assert max(Counter(node for edge in edges for node in edge).values()) <= 4


@pytest.mark.parametrize("sizes", [(8,), (8, 8), (1, 1, 1), (3, 5), (4, 4, 4, 4)])
def test_ring_is_even(sizes: tuple[int, ...]) -> None:
    """Every rank sends and receives the same 2(n-1)/n of an all-reduce."""
    group = group_of(*sizes)
    share = 2 * (group.size - 1) / group.size
    shape = ring_shape(NcclOpKind.ALL_REDUCE, group, -1)
    assert shape is not None
    assert {traffic(shape, rank) == (share, share) for rank in group.ranks} == {True}
    assert shape.nvlink_steps + shape.network_steps == 2 * (group.size - 1)


@pytest.mark.parametrize("kind", [NcclOpKind.BROADCAST, NcclOpKind.REDUCE])
def test_chain_spares_one_rank(kind: NcclOpKind) -> None:
    """Everyone but the root receives a broadcast once; everyone but the root sends a reduce
    once."""
    group = group_of(4, 4)
    shape = ring_shape(kind, group, 5)
    for rank in group.ranks:
        sent, received = traffic(shape, rank)
        once = received if kind is NcclOpKind.BROADCAST else sent
        assert once == (0.0 if rank == 5 else 1.0)


def test_trees_cross_the_network_evenly() -> None:
    """Both trees together send the buffer N-1 times up and N-1 times down, spread over the NICs."""
    group = group_of(8, 8, 8, 8)
    for shape in (
        tree_shape(NcclOpKind.ALL_REDUCE, group),
        nvls_tree_shape(NcclOpKind.ALL_REDUCE, group),
    ):
        assert shape is not None
        crossing = [
            transfer
            for transfer in shape.transfers
            if isinstance(transfer.source, int)
            and isinstance(transfer.destination, int)
            and group.crosses(transfer.source, transfer.destination)
        ]
        assert sum(transfer.share for transfer in crossing) == pytest.approx(2 * 3)
        assert len({transfer.source for transfer in crossing}) == 32


def test_pairwise_reaches_every_pair_once() -> None:
    """All-to-all has one flow for every ordered pair of ranks."""
    pairs = [transfer[:2] for transfer in pairwise_shape(group_of(2, 3)).transfers]
    assert len(set(pairs)) == len(pairs) == 5 * 4
