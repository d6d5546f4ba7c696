"""Links and routes of a cluster."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from sim_server.cluster import Cluster, Routing, load_cluster
from sim_server.network import Gpu, Topology
from sim_server.network.routing import ecmp_spine


def cluster_with(**fabric: Any) -> Cluster:
    h100 = load_cluster("h100")
    return dataclasses.replace(h100, fabric=dataclasses.replace(h100.fabric, **fabric))


def names(topology: Topology, path: Sequence[int]) -> list[str]:
    links = [topology.links[link] for link in path]
    assert all(one.target == next_.source for one, next_ in pairwise(links))
    return [links[0].source, *(link.target for link in links)]


def test_path_in_a_node_uses_nvlink() -> None:
    """GPUs of a node reach each other through the NVSwitch."""
    topology = Topology(load_cluster("h100"), 1)
    path = topology.path(Gpu(0, 1), Gpu(0, 5))
    assert names(topology, path) == ["gpu 0.1", "nvswitch 0", "gpu 0.5"]
    assert topology.latency_ns(path) == 500


def test_path_in_a_leaf_uses_own_nics() -> None:
    """Between nodes of one leaf each GPU uses its own NIC."""
    topology = Topology(load_cluster("h100"), 4)
    path = topology.path(Gpu(0, 1), Gpu(3, 5))
    assert names(topology, path) == ["gpu 0.1", "nic 0.1", "leaf 0", "nic 3.5", "gpu 3.5"]


def test_path_between_leaves_crosses_the_core() -> None:
    """Adaptive routing has one link of summed capacity up and one down."""
    topology = Topology(load_cluster("h100"), 8)
    path = topology.path(Gpu(0, 0), Gpu(7, 0))
    assert names(topology, path)[2:5] == ["leaf 0", "core", "leaf 1"]
    assert topology.links[path[2]].capacity_bytes_per_s == 32 * 50_000_000_000


@pytest.mark.parametrize("routing", [Routing.ECMP, Routing.SINGLE])
def test_hashed_and_single_paths_use_one_spine(routing: Routing) -> None:
    """The links of a spine share the uplink capacity equally."""
    topology = Topology(cluster_with(routing=routing, spines=4, oversubscription=2.0), 8)
    path = topology.path(Gpu(0, 3), Gpu(7, 2))
    assert names(topology, path)[3].startswith("spine ")
    assert topology.links[path[2]].capacity_bytes_per_s == 32 * 50_000_000_000 // 2 // 4


def test_ecmp_is_the_documented_hash() -> None:
    """The same inputs give the same spines for ever; these come from BLAKE2b."""
    assert [ecmp_spine(0, nic, 63, 8) for nic in range(8)] == SPINES_OF_SEED_0
    assert [ecmp_spine(1, nic, 63, 8) for nic in range(8)] != SPINES_OF_SEED_0


def test_ecmp_uses_all_spines() -> None:
    """No spine gets more than twice its part of many pairs of NICs."""
    used = Counter(ecmp_spine(0, one, other, 8) for one in range(64) for other in range(64, 128))
    assert set(used) == set(range(8))
    assert max(used.values()) < 2 * 64 * 64 / 8


def test_gpus_share_nics_in_blocks() -> None:
    """With 2 NICs for 8 GPUs, GPUs 0 to 3 use NIC 0 and GPUs 4 to 7 use NIC 1."""
    h100 = load_cluster("h100")
    topology = Topology(dataclasses.replace(h100, nic=dataclasses.replace(h100.nic, per_node=2)), 2)
    nics = [names(topology, topology.path(Gpu(0, n), Gpu(1, n)))[1] for n in range(8)]
    assert nics == ["nic 0.0"] * 4 + ["nic 0.1"] * 4


SPINES_OF_SEED_0 = [3, 7, 6, 2, 0, 1, 1, 6]
