"""Cases that can be computed by hand: links of 10 bytes/ns, S = 10^9 bytes.

Each case runs once without latency and once with 1 us on every link; a path inside a node has two
links and one between leaves has six.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import pytest
import simpy
from clusters import LINK_BYTES_PER_S, round_cluster

from sim_server.cluster import Cluster
from sim_server.collectives import Communication
from sim_server.records import NcclOpKind
from sim_server.records.operations import Operation

S = 10**9
MS = 10**6
INT8 = 0
NODE = tuple(range(8))
Start = tuple[int, Operation]

latencies = pytest.mark.parametrize("latency_ns", [0, 1000])


def send(source: int, destination: int, size_bytes: int = S) -> Operation:
    return Operation(NcclOpKind.SEND, size_bytes, INT8, source=source, destination=destination)


def ends_ns(cluster: Cluster, starts: Sequence[Start], nodes: int = 1) -> list[int]:
    """End of each operation; `starts` are (time, operation)."""
    env = simpy.Environment()
    communication = Communication(env, cluster, nodes, cluster.gpus_per_node)
    ends: dict[int, list[int]] = {}

    def process(
        position: int, start_ns: int, operation: Operation
    ) -> Generator[simpy.Event, Any, None]:
        yield env.timeout(start_ns)
        ends[position] = yield communication.start(operation)

    for position, (start_ns, operation) in enumerate(starts):
        env.process(process(position, start_ns, operation))
    env.run()
    return [max(ends[position]) for position in range(len(starts))]


@latencies
@pytest.mark.parametrize(
    ("starts", "expected_ms"),
    [
        pytest.param([(0, send(0, 1))], [100], id="one flow"),
        pytest.param([(0, send(0, 1)), (0, send(0, 2))], [200, 200], id="two equal flows"),
        pytest.param([(0, send(0, 1)), (0, send(0, 2, S // 2))], [150, 100], id="S and half S"),
        pytest.param([(0, send(0, 1)), (50 * MS, send(0, 2))], [150, 200], id="second at 50 ms"),
        # Link 1 leaves GPU 0, link 2 enters GPU 1.
        pytest.param(
            [(0, send(0, 1)), (0, send(0, 2)), (0, send(3, 1))], [200] * 3, id="parking lot"
        ),
        pytest.param(
            [(0, send(0, 2)), (0, send(0, 3)), (0, send(4, 1)), (0, send(0, 1))],
            [300, 300, 150, 300],
            id="1, 1, 2, 1+2",
        ),
        pytest.param([(0, send(rank, 7)) for rank in range(7)], [700] * 7, id="incast 7 to 1"),
    ],
)
def test_flows_share_links(starts: list[Start], expected_ms: list[int], latency_ns: int) -> None:
    """Flows end when max-min fair sharing says so, plus the latency of their path."""
    expected_ns = [ms * MS + 2 * latency_ns for ms in expected_ms]
    assert ends_ns(round_cluster(latency_ns), starts) == expected_ns


@latencies
@pytest.mark.parametrize(
    ("kind", "count", "expected_us", "steps"),
    [
        (NcclOpKind.ALL_TO_ALL, S // 8, 87_500, 1),
        (NcclOpKind.ALL_REDUCE, S, 175_000, 14),
        (NcclOpKind.ALL_GATHER, S // 8, 87_500, 7),
        (NcclOpKind.REDUCE_SCATTER, S // 8, 87_500, 7),
        (NcclOpKind.BROADCAST, S, 100_000, 7),
        (NcclOpKind.REDUCE, S, 100_000, 7),
        (NcclOpKind.GATHER, S, 700_000, 1),
        (NcclOpKind.SCATTER, S, 700_000, 1),
    ],
    ids=lambda value: value.name.lower() if isinstance(value, NcclOpKind) else "",
)
def test_collective_of_eight_ranks(
    kind: NcclOpKind, count: int, expected_us: int, steps: int, latency_ns: int
) -> None:
    """Bytes over the busiest link, plus the latency of every step of the longest chain."""
    (end_ns,) = ends_ns(
        round_cluster(latency_ns), [(0, Operation(kind, count, INT8, NODE, root=3))]
    )
    assert end_ns == expected_us * 1000 + steps * 2 * latency_ns


@latencies
def test_oversubscribed_leaf(latency_ns: int) -> None:
    """Four flows between leaves with 2:1 oversubscription get half a link each."""
    cluster = round_cluster(latency_ns, gpus_per_node=1, nics_per_node=1, oversubscription=2.0)
    starts = [(0, send(node, node + 4)) for node in range(4)]
    assert ends_ns(cluster, starts, nodes=8) == [200 * MS + 6 * latency_ns] * 4


@latencies
def test_capacity_halves(latency_ns: int) -> None:
    """A flow whose link loses half its capacity in the middle takes half as long again."""
    env = simpy.Environment()
    communication = Communication(env, round_cluster(latency_ns), 1, 8)
    done = communication.start(send(0, 1))

    def halve() -> Generator[simpy.Event, Any, None]:
        yield env.timeout(50 * MS + 2 * latency_ns)
        communication.flows.set_capacity(0, LINK_BYTES_PER_S / 2)

    env.process(halve())
    assert env.run(done) == [150 * MS + 2 * latency_ns] * 2


@latencies
def test_ring_over_nodes_uses_all_nics(latency_ns: int) -> None:
    """Two nodes with 8 NICs each: eight rings, each NIC carries an eighth of 2(n-1)/n S."""
    operation = Operation(NcclOpKind.ALL_REDUCE, S, INT8, tuple(range(16)))
    (end_ns,) = ends_ns(round_cluster(latency_ns, 8), [(0, operation)], nodes=2)
    # The busiest links are NVLinks: 7 of 8 rings pass each of them. Both nodes are on one leaf.
    busiest_bytes = 2 * 15 * S // 16 * 7 // 8
    steps_ns = 26 * 2 * latency_ns + 4 * 4 * latency_ns
    assert end_ns == busiest_bytes // 10 + steps_ns


def test_two_rings_share_nvlink() -> None:
    """Two all-reduces of the same ranks at once take as long as one after the other."""
    both = [Operation(NcclOpKind.ALL_REDUCE, S, INT8, NODE) for _ in range(2)]
    assert ends_ns(round_cluster(), [(0, both[0]), (0, both[1])]) == [350 * MS] * 2
