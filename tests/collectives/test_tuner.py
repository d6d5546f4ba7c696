"""NCCL's own estimates: where it changes algorithm and protocol between nodes."""

from __future__ import annotations

import dataclasses
from itertools import product

import pytest
import simpy

from sim_server.cluster import Calibration, Nic, load_cluster
from sim_server.collectives import Communication
from sim_server.collectives.tuner import Machine, Tuner
from sim_server.collectives.tuning import Algorithm, Protocol, Way, load_tuning
from sim_server.gpu import load_gpu
from sim_server.records import NcclOpKind
from sim_server.records.operations import Operation

INT8 = 0
DGX_A100 = Machine("ampere", 300, 8, 25, True, 16, 2)
FOUR_H100 = Machine("hopper", 450, 8, 50, False, 32, 4)
RINGS = list(product([Algorithm.RING], Protocol))
WITH_TREES = RINGS + list(product([Algorithm.TREE], Protocol))


def polaris(nodes: int) -> Machine:
    return Machine("ampere", 300, 2, 25, True, 4 * nodes, nodes)


def switches(
    machine: Machine, version: int, kind: NcclOpKind, ways: list[Way]
) -> list[tuple[int, str]]:
    """Powers of two from which on a way is the quickest, by NCCL's estimate."""
    tuner = Tuner(machine, version)
    found: list[tuple[int, str]] = []
    for power in range(9, 33):
        best = min(ways, key=lambda way: tuner.estimate_us(kind, way, 1 << power))
        name = f"{best[0].value} {best[1].value}"
        if not found or found[-1][1] != name:
            found.append((power, name))
    return found


def test_a_gather_leaves_ll_and_ll128_where_measurements_jump() -> None:
    """Published times of 16 A100 jump above 128 KiB and above 32 MiB."""
    found = switches(DGX_A100, 21805, NcclOpKind.ALL_GATHER, RINGS)
    assert found == [(9, "Ring LL"), (18, "Ring LL128"), (26, "Ring Simple")]


@pytest.mark.parametrize(
    ("nodes", "version", "expected"),
    [
        (2, 21805, [(9, "Tree LL"), (17, "Ring LL"), (19, "Tree Simple"), (23, "Ring Simple")]),
        (2, 22105, [(9, "Tree LL"), (17, "Ring LL"), (22, "Ring Simple")]),
        (8, 21805, [(9, "Tree LL"), (18, "Tree Simple"), (24, "Ring Simple")]),
    ],
)
def test_versions_choose_differently(
    nodes: int, version: int, expected: list[tuple[int, str]]
) -> None:
    """Trees of Simple had more latency from 2.19 to 2.22, and LL half the bandwidth until 2.21."""
    ways = [way for way in WITH_TREES if way[1] is not Protocol.LL128]
    assert switches(polaris(nodes), version, NcclOpKind.ALL_REDUCE, ways) == expected


def test_four_nodes_of_hopper_take_nvls_trees_and_then_rings() -> None:
    """Published times of 32 H100 under NCCL 2.26 jump above 1 MiB."""
    ways = [*WITH_TREES, (Algorithm.NVLS_TREE, Protocol.SIMPLE)]
    found = switches(FOUR_H100, 22602, NcclOpKind.ALL_REDUCE, ways)
    assert found[2:] == [(21, "NVLSTree Simple"), (28, "Ring Simple")]


def test_two_nodes_prefer_trees_where_nvlinks_carry_more_than_nics() -> None:
    """With half the NICs a tree has twice the NICs' share inside a node; a ring has not."""
    ways = [(Algorithm.RING, Protocol.SIMPLE), (Algorithm.TREE, Protocol.SIMPLE)]
    thin = Machine("ampere", 300, 4, 12.5, False, 16, 2)
    assert switches(thin, 21805, NcclOpKind.ALL_REDUCE, ways)[-1][1] == "Tree Simple"
    assert switches(polaris(2), 21805, NcclOpKind.ALL_REDUCE, ways)[-1][1] == "Ring Simple"


@pytest.mark.parametrize(("message_bytes", "protocol"), [(16 << 10, "LL"), (17 << 10, "Simple")])
def test_sends_between_nodes_are_ll_up_to_16_kib(message_bytes: int, protocol: str) -> None:
    """Of an all-to-all each message counts."""
    network = Communication(simpy.Environment(), load_cluster("h100"), 2, 8)
    operation = Operation(NcclOpKind.ALL_TO_ALL, message_bytes, INT8, tuple(range(16)))
    assert network.plan(operation).protocol.value == protocol


@pytest.mark.parametrize(
    ("transport", "gbits", "expected"),
    [
        ("infiniband", 200, "infiniband-hdr"),
        ("infiniband", 400, "infiniband-ndr"),
        ("efa", 400, "efa"),
    ],
)
def test_generations_of_infiniband_have_their_own_costs(
    transport: str, gbits: int, expected: str
) -> None:
    """They go by the rate of a NIC."""
    nic = Nic(8, gbits * 125_000_000, 600, 63_000_000_000, 300, transport)
    assert nic.network == expected


@pytest.mark.parametrize(
    ("network", "source"),
    [("roce", "infiniband-ndr"), ("spectrum-x", "infiniband-ndr"), ("tcpxo", "gib")],
)
def test_fabrics_without_measurements_are_as_another(network: str, source: str) -> None:
    """They can be named, and the report calls their interval assumed."""
    costs, others = (load_tuning("hopper", one, Calibration()) for one in (network, source))
    assert costs == others
    _, _, said = load_gpu("h100").intervals[f"communication over {network}"]
    assert said.startswith("assumed")


def test_only_allowed_protocols_are_used_between_nodes() -> None:
    """Inside a node they all are."""
    h100 = load_cluster("h100")
    simple = dataclasses.replace(h100, nic=dataclasses.replace(h100.nic, protocols=("Simple",)))
    network = Communication(simpy.Environment(), simple, 2, 8)
    across = Operation(NcclOpKind.ALL_GATHER, 64, INT8, tuple(range(16)))
    inside = Operation(NcclOpKind.ALL_GATHER, 64, INT8, tuple(range(8)))
    assert network.plan(across).protocol is Protocol.SIMPLE
    assert network.plan(inside).protocol is Protocol.LL
