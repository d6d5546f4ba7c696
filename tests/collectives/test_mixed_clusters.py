"""Operations on nodes that are not all alike."""

from __future__ import annotations

import dataclasses

import pytest
import simpy
from clusters import LINK_BYTES_PER_S, round_cluster

from sim_server.cluster import Cluster, GpuLinks, NicException, NodeGroup, NodeType, load_cluster
from sim_server.collectives import Communication
from sim_server.collectives.tuning import Algorithm, Protocol
from sim_server.network import Gpu, Topology
from sim_server.records import NcclOpKind
from sim_server.records.operations import Operation

S = 10**9
INT8, HALF = 0, 6


def group_of(node: NodeType, nodes: int) -> NodeGroup:
    fields = {field.name: getattr(node, field.name) for field in dataclasses.fields(NodeType)}
    return NodeGroup(nodes=nodes, **fields)


def mixed(cluster: Cluster, *groups: NodeGroup) -> Cluster:
    return dataclasses.replace(
        cluster, node_groups=groups, nodes=sum(group.nodes for group in groups)
    )


def communication(cluster: Cluster, nodes: int, gpus: int = 8) -> Communication:
    return Communication(simpy.Environment(), cluster, nodes, gpus, {})


def all_reduce(*ranks: int) -> Operation:
    return Operation(NcclOpKind.ALL_REDUCE, S, HALF, ranks)


def test_every_node_has_its_own_links() -> None:
    """Links are those of the node's type; PCIe nodes stand beside nodes with NVSwitch."""
    h100, a100 = load_cluster("h100"), load_cluster("a100")
    pcie = dataclasses.replace(group_of(a100, 1), gpu_links=GpuLinks.PCIE)
    topology = Topology(mixed(h100, group_of(h100, 1), group_of(a100, 1), pcie), 3)
    inside = [topology.path(Gpu(node, 0), Gpu(node, 1)) for node in range(3)]
    assert [topology.links[path[0]].capacity_bytes_per_s / 1e9 for path in inside] == [
        *(450, 300),
        a100.nic.pcie_bandwidth_bytes_per_s / 1e9,
    ]
    assert [topology.links[path[0]].target for path in inside] == [
        *("nvswitch 0", "nvswitch 1", "host 2")
    ]
    assert topology.has_nvlink([0, 1])
    assert not topology.has_nvlink([0, 1, 2])


def test_leaves_are_filled_by_nics() -> None:
    """A leaf of 32 ports takes nodes of 8 and of 4 NICs until the next does not fit."""
    h100 = load_cluster("h100")
    small = dataclasses.replace(
        group_of(h100, 5), gpus_per_node=4, nic=dataclasses.replace(h100.nic, per_node=4)
    )
    topology = Topology(mixed(h100, group_of(h100, 2), small), 7)
    leaves = [topology.place(Gpu(node, 0)).leaf for node in range(7)]
    assert leaves == ["leaf 0"] * 6 + ["leaf 1"]


def test_one_slow_nic_holds_up_all() -> None:
    """A send over it takes as long as it needs; an all-reduce of all rings waits for its ring."""
    cluster = round_cluster(0, 8)
    slow = NicException("nic 1.3", LINK_BYTES_PER_S // 20)
    cluster = dataclasses.replace(cluster, nic_exceptions=(slow,))
    for destination, slower in ((3, 20), (2, 1)):
        network = communication(cluster, 2)
        send = Operation(NcclOpKind.SEND, S, INT8, source=0, destination=8 + destination)
        ends_ns = network.flows._env.run(network.start(send))
        assert ends_ns == [slower * 10**8] * 2
    network = communication(cluster, 2)
    operation = Operation(NcclOpKind.ALL_REDUCE, S, INT8, tuple(range(16)))
    ends_ns = network.flows._env.run(network.start(operation))
    ring_bytes = 2 * 15 / 16 * S / 8
    expected_ns = ring_bytes / (LINK_BYTES_PER_S / 20) * 1e9
    assert ends_ns == pytest.approx([expected_ns] * 16, rel=1e-9)


def test_nccl_goes_by_the_oldest_gpu() -> None:
    """Ranks of one type are as on that type; together they cost what the older ones cost, without
    LL128, which NCCL uses between equal architectures only, and without NVLS.
    """
    h100, a100 = load_cluster("h100"), load_cluster("a100")
    network = communication(mixed(h100, group_of(h100, 2), group_of(a100, 2)), 4)
    old, new = communication(a100, 2), communication(h100, 2)
    one_node, two_nodes = all_reduce(*range(8)), all_reduce(*range(16))
    assert network.plan(one_node) == new.plan(one_node)
    assert network.plan(one_node).algorithm is Algorithm.NVLS
    assert network.estimate_ns(two_nodes) == new.estimate_ns(two_nodes)
    on_old = all_reduce(*range(16, 32))
    assert network.estimate_ns(on_old) == pytest.approx(old.estimate_ns(two_nodes))
    across = network._selection.estimates_ns(
        all_reduce(*range(8, 24)), network._group(tuple(range(8, 24)))
    )
    assert {way[1] for way in across} == {Protocol.LL, Protocol.SIMPLE}
    assert {way[0] for way in across} == {Algorithm.RING, Algorithm.TREE}


def test_gpus_without_nvlink_make_it_pcie() -> None:
    """One node without NVLink takes NVLS and LL128 from all."""
    h100 = load_cluster("h100")
    pcie = dataclasses.replace(group_of(h100, 1), gpu_links=GpuLinks.PCIE, collectives="pcie")
    network = communication(mixed(h100, group_of(h100, 1), pcie), 2)
    ways = network._selection.estimates_ns(all_reduce(*range(16)), network._group(tuple(range(16))))
    assert not {way for way in ways if way[1] is Protocol.LL128 or "NVLS" in way[0].value}
