"""Clusters whose nodes are not all alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sim_server.cluster import Cluster, GpuLinks, load_cluster, place
from sim_server.errors import UsageError
from sim_server.settings import load_gpus

MIXED = """
base = "h100"
[[node_groups]]
nodes = 2
[[node_groups]]
base = "a100"
nodes = 1
[[node_groups]]
nodes = 3
gpu = "a100"
gpus_per_node = 4
gpu_links = "pcie"
collectives = "pcie"
nic = { per_node = 2, bandwidth = "100 Gb/s" }
[[nic_exceptions]]
nic = "nic 1.7"
bandwidth = "100 Gb/s"
"""


def load(tmp_path: Path, text: str) -> Cluster:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return load_cluster(str(path))


def test_groups_follow_each_other(tmp_path: Path) -> None:
    """A group says what differs from the cluster or from its base; the cluster has their sum."""
    cluster = load(tmp_path, MIXED)
    assert cluster.nodes == 6
    assert not cluster.is_uniform
    assert [cluster.node(node).gpu for node in range(6)] == ["h100"] * 2 + ["a100"] * 4
    assert cluster.node(2).nic == load_cluster("a100").nic
    assert cluster.node(5).gpu_links is GpuLinks.PCIE
    assert cluster.node(5).nic.bandwidth_bytes_per_s == 12_500_000_000
    assert cluster.node(5).nic.latency_ns == cluster.nic.latency_ns
    assert [cluster.first_nic(node) for node in range(7)] == [0, 8, 16, 24, 26, 28, 30]
    assert Cluster.from_dict(json.loads(json.dumps(cluster.to_dict()))) == cluster


def test_ranks_are_as_many_on_every_node(tmp_path: Path) -> None:
    """Without a number of ranks per node it is that of the smallest node in use."""
    cluster = load(tmp_path, MIXED)
    assert place(cluster, nodes=3).gpus_per_node == 8
    assert place(cluster, nodes=6).gpus_per_node == 4
    with pytest.raises(UsageError, match="a node of cluster mine has 4 GPUs"):
        place(cluster, nodes=6, gpus_per_node=8)
    with pytest.raises(UsageError, match="has 6 nodes \\(36 GPUs\\)"):
        place(cluster, nodes=7)


def test_gpus_are_those_of_the_nodes_in_use(tmp_path: Path) -> None:
    """The first node's profile, and the others' by name."""
    cluster = load(tmp_path, MIXED)
    first, others = load_gpus(cluster, 2)
    assert (first.profile, others) == ("h100", {})
    first, others = load_gpus(cluster, 6)
    assert (first.profile, list(others)) == ("h100", ["a100"])


GROUP = 'base = "h100"\n[[node_groups]]\nnodes = 2\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"nodes = 5\n{GROUP}[[node_groups]]\nnodes = 2\n",
            "nodes = 5 are not those of the node_groups, 2 + 2 = 4; leave 'nodes' out, or correct "
            "one",
        ),
        (
            f"{GROUP}gpus_per_node = 4\n",
            "node_groups 1: nic.per_node = 8 does not divide gpus_per_node = 4; every NIC serves "
            "the same number of GPUs",
        ),
        (
            f"{GROUP}nic = {{ per_node = 8, bandwith = 4 }}\n",
            "unknown key 'node_groups 1: nic.bandwith'; did you mean 'node_groups 1: "
            "nic.bandwidth'?",
        ),
        (
            f'{GROUP}base = "h1000"\n',
            "node_groups 1: base = 'h1000' is not a built-in cluster; use one of a100, b200, "
            "gb200, h100, h200, or the path of a file beside this one",
        ),
        (
            f'{GROUP}nic = {{ transport = "efa" }}\n',
            'node_groups 1: nic.transport = "efa" is not the cluster\'s, "infiniband"; nodes that '
            "talk to each other share one",
        ),
        (
            f"{GROUP}gpus_per_node = 12\nnic = {{ per_node = 12 }}\n",
            "fabric.leaf_downlinks = 32 is not a multiple of nic.per_node = 12; all NICs of a node "
            "are on one leaf",
        ),
        (
            'base = "h100"\n[[node_groups]]\ngpu = "a100"\n',
            "'node_groups 1: nodes' is missing; add it, or start from a built-in cluster with "
            'base = "h100"',
        ),
        (
            'base = "h100"\nnode_groups = 3\n',
            "'node_groups' is a list of tables; write each under [[node_groups]]",
        ),
        (
            f'{GROUP}[[nic_exceptions]]\nnic = "nic 2.0"\nbandwidth = "1 GB/s"\n',
            "nic_exceptions: there is no 'nic 2.0': nodes are 0 to 1",
        ),
        (
            f'{GROUP}[[nic_exceptions]]\nnic = "nic 1.8"\nbandwidth = "1 GB/s"\n',
            "nic_exceptions: there is no 'nic 1.8': NICs of node 1 are 0 to 7",
        ),
        (
            f'{GROUP}[[nic_exceptions]]\nnic = "1.7"\nbandwidth = "1 GB/s"\n',
            "nic_exceptions 1: nic: '1.7' is not a NIC; number I of node N is \"nic N.I\"",
        ),
        (
            f'{GROUP}[fabric]\ntopology = "rail-only"\nleaf_downlinks = 1\n',
            "nodes = 2 do not fit: the rail-only has room for 1",
        ),
        (
            f'{GROUP}[fabric]\ntopology = "fat-tree"\nports = 2\nrouting = "ecmp"\n',
            "nodes = 2 do not fit: the fat-tree has room for 0",
        ),
    ],
)
def test_what_cannot_be_is_named(tmp_path: Path, text: str, message: str) -> None:
    """The message says which group or NIC, and what would be right."""
    with pytest.raises(UsageError) as error:
        load(tmp_path, text)
    assert str(error.value) == f"cluster {tmp_path}/mine.toml: {message}"
