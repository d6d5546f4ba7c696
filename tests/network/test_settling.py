"""Congestion control as a rate model, against cases that can be computed by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from math import exp
from pathlib import Path
from typing import Any

import pytest
import simpy

from sim_server.cluster import load_cluster
from sim_server.collectives import Communication
from sim_server.network import Demand, FlowNetwork
from sim_server.network.settling import Settling
from sim_server.records import NcclOpKind
from sim_server.records.operations import Operation

# 10 bytes per ns, and a time constant of 50 us, in which a link carries 500 kB.
CAPACITY, TIME_NS = 10e9, 50_000
SETTLING = Settling(TIME_NS / 1e9, frozenset({0}))


def ends_ns(
    starts: list[tuple[int, int, float]], settling: Settling | None = SETTLING
) -> list[int]:
    """Ends of flows that start at a time on a link with a size in bytes."""
    env = simpy.Environment()
    network = FlowNetwork(env, [CAPACITY, CAPACITY], settling=settling)
    found = {}

    def flow(number: int, at_ns: int, link: int, size: float) -> Generator[simpy.Event, Any, None]:
        yield env.timeout(at_ns)
        yield network.start([Demand((link,), size)]).done
        found[number] = int(env.now)

    for number, one in enumerate(starts):
        env.process(flow(number, *one))
    env.run()
    return [found[number] for number in range(len(starts))]


def test_a_long_flow_loses_one_time_constant() -> None:
    """It moves C (t - T) once the exponential has died away: 100 ms become 100.05 ms."""
    assert ends_ns([(0, 0, 1e9)]) == [100_050_000]


@pytest.mark.parametrize("flows", [1, 2, 7, 64])
def test_incast_of_short_flows(flows: int) -> None:
    """Flows that together have C T (1/e) bytes end after just one time constant, where they would
    have needed 0.37 of it: C t - C T (1 - exp(-t/T)) at t = T.
    """
    total_bytes = CAPACITY * TIME_NS / 1e9 * exp(-1)
    assert ends_ns([(0, 0, total_bytes / flows)] * flows) == [TIME_NS] * flows
    at_once = ends_ns([(0, 0, total_bytes / flows)] * flows, settling=None)
    assert at_once == pytest.approx([TIME_NS * exp(-1)] * flows, abs=1)


def test_what_one_gives_up_another_takes() -> None:
    """A second flow rises as the first one falls; the link stays full and no byte is lost: the
    last ends when all bytes have passed, but for the loss at the first start and one at the end.
    """
    first_ns, second_ns = ends_ns([(0, 0, 1e9), (50_000_000, 0, 1e9)])
    # The first is above its half for T: C/2 T bytes less for the second, which take it T longer at
    # C/2. When the first ends, the second rises from C/2 to C, which loses C/2 T: T/2 at C.
    assert first_ns == 150_000_000 + 2 * TIME_NS - TIME_NS
    assert second_ns == 200_000_000 + TIME_NS + TIME_NS // 2


def test_other_links_change_at_once() -> None:
    """Flows that share nothing with the network do not settle."""
    assert ends_ns([(0, 1, 1e9), (0, 0, 1e9)]) == [100_000_000, 100_050_000]


def test_a_cluster_switches_it_on(tmp_path: Path) -> None:
    """fabric.convergence slows what crosses the network, and nothing inside a node."""
    file = tmp_path / "slow.toml"
    file.write_text('base = "h100"\n[fabric]\nconvergence = "50 us"\n', encoding="utf-8")
    slow, h100 = load_cluster(str(file)), load_cluster("h100")
    assert slow.fabric == dataclasses.replace(h100.fabric, convergence_ns=TIME_NS)
    sends = {
        "between nodes": Operation(NcclOpKind.SEND, 10**8, 0, source=0, destination=8),
        "in a node": Operation(NcclOpKind.SEND, 10**8, 0, source=0, destination=1),
    }
    found = {}
    for name, send in sends.items():
        times_ns = []
        for cluster in (h100, slow):
            env = simpy.Environment()
            env.run(Communication(env, cluster, 2, 8, {}).start(send))
            times_ns.append(int(env.now))
        found[name] = times_ns[1] - times_ns[0]
    assert found == {"between nodes": pytest.approx(TIME_NS, abs=1), "in a node": 0}
