"""What is known of one group holds for those that a symmetry maps to it, and for no others."""

from __future__ import annotations

import dataclasses
import random

import pytest
import simpy

from sim_server.cluster import Cluster, FabricKind, Routing, load_cluster
from sim_server.collectives import Communication
from sim_server.collectives.selection import Plan
from sim_server.network import Gpu, Topology
from sim_server.records import NcclOpKind
from sim_server.records.operations import Operation

NODES, GPUS = 12, 8
FLOAT16 = 6
KINDS = (
    NcclOpKind.ALL_REDUCE,
    NcclOpKind.ALL_GATHER,
    NcclOpKind.REDUCE_SCATTER,
    NcclOpKind.ALL_TO_ALL,
    NcclOpKind.BROADCAST,
    NcclOpKind.GATHER,
)


def cluster_with(**fabric: object) -> Cluster:
    h100 = load_cluster("h100")
    return dataclasses.replace(h100, fabric=dataclasses.replace(h100.fabric, **fabric))  # type: ignore[arg-type]


def random_operation(chance: random.Random) -> Operation:
    """Of ranks at equal distances, as parallel training has them, and sometimes in no order."""
    size, distance = chance.choice([(2, 1), (8, 1), (16, 1), (4, 8), (6, 8), (3, 32), (16, 5)])
    first = chance.randrange(NODES * GPUS - (size - 1) * distance)
    ranks = list(range(first, first + size * distance, distance))
    if chance.random() < 0.2:
        chance.shuffle(ranks)
    return Operation(
        chance.choice(KINDS),
        chance.choice([1 << 10, 3_000_017, 1 << 26]),
        FLOAT16,
        tuple(ranks),
        root=chance.randrange(size),
    )


def outline(plan: Plan) -> tuple[object, ...]:
    """All of a plan; folds have no equality of their own."""
    fold = plan.fold and (plan.fold.classes, plan.fold.links, plan.fold.paths())
    return (*(getattr(plan, field.name) for field in dataclasses.fields(plan)[:-1]), fold)


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param(cluster_with(), id="adaptive"),
        pytest.param(cluster_with(routing=Routing.ECMP), id="ecmp"),
        pytest.param(cluster_with(kind=FabricKind.RAIL_OPTIMISED, leaf_downlinks=4), id="rails"),
    ],
)
def test_plans_are_those_of_a_group_alone(cluster: Cluster) -> None:
    """A plan does not depend on which groups were planned before."""
    chance = random.Random(1)
    shared = Communication(simpy.Environment(), cluster, NODES, GPUS)
    for _ in range(60):
        operation = random_operation(chance)
        alone = Communication(simpy.Environment(), cluster, NODES, GPUS)
        assert outline(shared.plan(operation)) == outline(alone.plan(operation)), operation


def test_alike_are_groups_that_a_symmetry_maps_to_each_other() -> None:
    """Ranks in other nodes or on other NICs are alike if they meet as the first ones do."""
    topology = Topology(load_cluster("h100"), 8)  # four nodes on a leaf
    rail = topology.pattern([Gpu(0, 0), Gpu(1, 0), Gpu(4, 0)])
    assert topology.pattern([Gpu(6, 3), Gpu(5, 3), Gpu(2, 3)]) == rail
    assert topology.pattern([Gpu(0, 5), Gpu(1, 2), Gpu(4, 1)]) == rail
    for other in (
        [Gpu(0, 0), Gpu(4, 0), Gpu(1, 0)],  # it is the second that is alone on its leaf
        [Gpu(0, 0), Gpu(1, 0), Gpu(2, 0)],  # all on one leaf
        [Gpu(0, 0), Gpu(0, 1), Gpu(4, 0)],  # two in a node
        [Gpu(0, 0), Gpu(1, 0)],
    ):
        assert topology.pattern(other) != rail


def test_shared_nics_tell_groups_apart() -> None:
    """Two GPUs of a node behind one NIC are not alike two behind their own."""
    h100 = load_cluster("h100")
    topology = Topology(dataclasses.replace(h100, nic=dataclasses.replace(h100.nic, per_node=4)), 2)
    shared, apart = [Gpu(0, 0), Gpu(0, 1), Gpu(1, 0)], [Gpu(0, 0), Gpu(0, 2), Gpu(1, 0)]
    assert topology.pattern(shared) != topology.pattern(apart)


def test_without_symmetry_only_the_same_are_alike() -> None:
    """Under ECMP between leaves a route depends on which NICs it joins."""
    topology = Topology(cluster_with(routing=Routing.ECMP), 8)
    one, other = [Gpu(0, 0), Gpu(1, 0)], [Gpu(2, 0), Gpu(3, 0)]
    assert topology.pattern(one) == topology.pattern(list(one))
    assert topology.pattern(one) != topology.pattern(other)
