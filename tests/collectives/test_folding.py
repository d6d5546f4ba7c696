"""Folded flows equal the flows that they stand for."""

from __future__ import annotations

import dataclasses
import io
import json
import random
from collections import Counter
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
import simpy
from clusters import LINK_BYTES_PER_S, round_cluster

from sim_server.cluster import Cluster, Routing
from sim_server.collectives import Communication, selection
from sim_server.network import Fold, Gpu, Topology
from sim_server.records import NcclOpKind
from sim_server.records.operations import Operation

INT8 = 0
NEVER = 1 << 60
Start = tuple[int, Operation]


def random_cluster(chance: random.Random) -> Cluster:
    """Nodes of up to 8 GPUs that may share NICs, links of different speed, small leaves."""
    gpus = chance.choice([1, 2, 4, 8])
    nics = chance.choice([number for number in (1, 2, 4, 8) if gpus % number == 0])
    cluster = round_cluster(chance.choice([0, 700]), gpus, nics, chance.choice([1.0, 3.0]))
    return dataclasses.replace(
        cluster,
        nvlink=dataclasses.replace(cluster.nvlink, bandwidth_bytes_per_s=45 * 10**9),
        fabric=dataclasses.replace(cluster.fabric, leaf_downlinks=nics * chance.choice([1, 2, 4])),
    )


def outcome(
    cluster: Cluster, nodes: int, starts: list[Start], slow_link: tuple[int, int] | None = None
) -> tuple[list[int], dict[str, float]]:
    """End of each operation, and for how long links of each class would have been full if they had
    been so one after the other; `slow_link` loses half its capacity at a time.
    """
    env = simpy.Environment()
    communication = Communication(env, cluster, nodes, cluster.gpus_per_node)
    ends = [-1] * len(starts)

    def carry_out(
        position: int, start_ns: int, operation: Operation
    ) -> Generator[simpy.Event, Any, None]:
        yield env.timeout(start_ns)
        (ends[position], *_) = yield communication.start(operation)

    def slow_down(time_ns: int, link: int) -> Generator[simpy.Event, Any, None]:
        yield env.timeout(time_ns)
        communication.flows.set_capacity(link, LINK_BYTES_PER_S / 2)

    for position, start in enumerate(starts):
        env.process(carry_out(position, *start))
    if slow_link is not None:
        env.process(slow_down(*slow_link))
    env.run()
    return ends, used_ns(communication)


def used_ns(communication: Communication) -> dict[str, float]:
    """By class of links: the share that was used, over time."""
    sums: dict[str, float] = {}
    pieces = dict(communication.link_use.take(NEVER))
    if pieces:
        loads = json.loads(pieces["link_loads/000000.json"])
        for begin_ns, end_ns, load in np.load(io.BytesIO(pieces["link_use/000000.npy"])).tolist():
            for name, (share, _, _) in loads[load].items():
                sums[name] = sums.get(name, 0.0) + share * (end_ns - begin_ns)
    return sums


def exchange(ranks: tuple[int, ...], size_bytes: int = 3_000_017) -> Operation:
    return Operation(NcclOpKind.ALL_TO_ALL, size_bytes, INT8, ranks)


def check(
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
    nodes: int,
    starts: list[Start],
    slow_link: tuple[int, int] | None = None,
) -> None:
    """Both ways give the same ends and the same use of links, up to rounding."""
    monkeypatch.setattr(selection, "_FOLDED_RANKS", 2)
    folded_ns, folded_use_ns = outcome(cluster, nodes, starts, slow_link)
    monkeypatch.setattr(selection, "_FOLDED_RANKS", NEVER)
    single_ns, single_use_ns = outcome(cluster, nodes, starts, slow_link)
    assert folded_ns == pytest.approx(single_ns, rel=0, abs=1)
    assert folded_use_ns == pytest.approx(single_use_ns, rel=1e-3, abs=10)


@pytest.mark.parametrize("seed", range(40))
def test_random_groups(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Any group of any ranks, alone on the network."""
    chance = random.Random(seed)
    cluster = random_cluster(chance)
    nodes = chance.randint(2, 6)
    everyone = range(nodes * cluster.gpus_per_node)
    ranks = tuple(chance.sample(everyone, chance.randint(2, min(len(everyone), 24))))
    check(monkeypatch, cluster, nodes, [(0, exchange(ranks))])


@pytest.mark.parametrize("seed", range(60))
def test_random_company(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Other traffic that comes before, with, during and after takes the classes apart, exactly."""
    chance = random.Random(1000 + seed)
    cluster = random_cluster(chance)
    nodes = chance.randint(2, 4)
    everyone = range(nodes * cluster.gpus_per_node)
    starts: list[Start] = []
    for _ in range(chance.randint(2, 5)):
        start_ns = chance.choice([0, 0, 50_000, chance.randint(0, 3_000_000)])
        ranks = tuple(chance.sample(everyone, chance.randint(2, min(len(everyone), 12))))
        size_bytes = chance.choice([10**5, 1_000_003])
        starts.append(
            chance.choice(
                [
                    (start_ns, exchange(ranks, size_bytes)),
                    (start_ns, exchange(ranks, size_bytes)),
                    (start_ns, Operation(NcclOpKind.ALL_REDUCE, size_bytes, INT8, ranks)),
                    (
                        start_ns,
                        Operation(
                            NcclOpKind.SEND,
                            size_bytes,
                            INT8,
                            source=ranks[0],
                            destination=ranks[1],
                        ),
                    ),
                ]
            )
        )
    slow_link = chance.choice([None, (200_000, chance.randint(0, 3))])
    check(monkeypatch, cluster, nodes, starts, slow_link)


def test_company_at_the_end_of_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """What starts at the very instant at which a class ends finds it ended."""
    cluster = round_cluster(gpus_per_node=2, nics_per_node=2)
    alone = exchange((0, 1, 2, 3), 10**6)
    ((end_ns,), _) = outcome(cluster, 2, [(0, alone)])
    send = Operation(NcclOpKind.SEND, 10**6, INT8, source=0, destination=3)
    for start_ns in (end_ns - 1, end_ns, end_ns + 1):
        check(monkeypatch, cluster, 2, [(0, alone), (start_ns, send)])


def test_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exchange that is over leaves its links to the next one, in other groups too."""
    cluster = round_cluster(gpus_per_node=4, nics_per_node=4)
    groups = [tuple(range(8)), tuple(range(4, 12)), tuple(range(16)), tuple(range(8))]
    starts = [(10**7 * turn, exchange(ranks)) for turn, ranks in enumerate(groups)]
    check(monkeypatch, cluster, 4, starts)


def test_classes_are_few() -> None:
    """Of a regular group there are three classes: in the node, in the leaf, elsewhere."""
    topology = Topology(round_cluster(), 16)
    fold = Fold(topology, [Gpu(node, number) for node in range(16) for number in range(8)])
    assert sorted(one.flows for one in fold.classes) == [128 * 7, 128 * 24, 128 * 96]
    assert [len(paths) for paths in fold.paths()] == [one.flows for one in fold.classes]


@pytest.mark.parametrize("seed", range(20))
def test_paths_are_those_of_single_flows(seed: int) -> None:
    """Taken apart, an exchange has every path that the topology finds, in the class of its ends."""
    chance = random.Random(2000 + seed)
    cluster = random_cluster(chance)
    nodes = chance.randint(2, 8)
    everyone = [
        Gpu(node, number) for node in range(nodes) for number in range(cluster.gpus_per_node)
    ]
    gpus = chance.sample(everyone, chance.randint(2, min(len(everyone), 24)))
    topology = Topology(cluster, nodes)
    fold = Fold(topology, gpus)
    paths = fold.paths()
    pairs = [(one, other) for one in gpus for other in gpus if one != other]
    expected = Counter(topology.find_path(*pair) for pair in pairs)
    assert Counter(path for of_class in paths for path in of_class) == expected
    assert fold.links == {link for path in expected for link in path}
    for one, of_class in zip(fold.classes, paths, strict=True):
        assert len(of_class) == one.flows
        assert topology.find_path(one.source, one.destination) in of_class


def test_spines_that_differ_are_not_folded() -> None:
    """Under ECMP two flows between leaves are not alike."""
    cluster = round_cluster(gpus_per_node=1, nics_per_node=1)
    hashed = dataclasses.replace(
        cluster, fabric=dataclasses.replace(cluster.fabric, routing=Routing.ECMP)
    )
    assert Topology(hashed, 4).is_symmetric  # one leaf
    assert not Topology(hashed, 5).is_symmetric
    communication = Communication(simpy.Environment(), hashed, 32, 1)
    assert communication.plan(exchange(tuple(range(32)))).fold is None
    communication = Communication(simpy.Environment(), cluster, 32, 1)
    assert communication.plan(exchange(tuple(range(32)))).fold is not None
