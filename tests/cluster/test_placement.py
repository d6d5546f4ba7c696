"""Placement of ranks on a cluster."""

from __future__ import annotations

import dataclasses

import pytest

from sim_server.cluster import GpuNumbers, Layout, load_cluster, place
from sim_server.errors import UsageError


@pytest.mark.parametrize(
    ("asked", "layout"),
    [
        ({"ranks": 1}, Layout(1, 1)),
        ({"ranks": 8}, Layout(1, 8)),
        ({"ranks": 64}, Layout(8, 8)),
        ({"ranks": 16, "gpus_per_node": 4}, Layout(4, 4)),
        ({"ranks": 16, "nodes": 4}, Layout(4, 4)),
        ({"nodes": 2}, Layout(2, 8)),
        ({"nodes": 2, "gpus_per_node": 3}, Layout(2, 3)),
        ({"ranks": 6, "nodes": 2, "gpus_per_node": 3}, Layout(2, 3)),
        ({}, Layout(1, 8)),
    ],
)
def test_what_is_missing_follows(asked: dict[str, int], layout: Layout) -> None:
    """Nodes are filled unless the user says otherwise."""
    assert place(load_cluster("h100"), **asked) == layout
    assert layout.ranks == layout.nodes * layout.gpus_per_node


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"ranks": 40},
            "40 ranks need 5 nodes of 8 GPUs, but cluster h100 has 4 nodes (32 GPUs); ask for "
            "fewer ranks or raise 'nodes' in the cluster's file",
        ),
        (
            {"ranks": 12},
            "12 ranks are not 2 nodes with 8 ranks each; ask for a multiple of 8 ranks or set the "
            "ranks per node",
        ),
        (
            {"nodes": 1, "gpus_per_node": 16},
            "16 ranks per node do not fit: a node of cluster h100 has 8 GPUs; use more nodes or a "
            "cluster with larger nodes",
        ),
        ({"ranks": 0}, "0 ranks were asked for; ask for at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(asked: dict[str, int], message: str) -> None:
    """The message holds both numbers and what to do."""
    cluster = dataclasses.replace(load_cluster("h100"), nodes=4)
    with pytest.raises(UsageError) as error:
        place(cluster, **asked)
    assert str(error.value) == message


def test_gpus_have_numbers() -> None:
    """A rank's own GPU has its number; the others of its node follow after all ranks."""
    numbers = GpuNumbers.of(load_cluster("h100"), nodes=2, ranks_per_node=2)
    assert [numbers.of_device(rank, None) for rank in range(4)] == [0, 1, 2, 3]
    assert [numbers.of_device(3, device) for device in range(4)] == [2, 3, 10, 11]
    every = [numbers.of_device(2 * node, device) for node in range(2) for device in range(8)]
    assert sorted(every) == list(range(16))
    places = [numbers.place(gpu) for gpu in every]
    assert places == [(node, device) for node in range(2) for device in range(8)]
    with pytest.raises(ValueError, match="rank 1 has no device 8"):
        numbers.of_device(1, 8)
