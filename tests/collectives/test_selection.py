"""Choice of algorithm and protocol."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest
import simpy

from sim_server.cluster import load_cluster
from sim_server.collectives import Communication
from sim_server.collectives.environment import NcclEnvironment
from sim_server.collectives.group import Group
from sim_server.collectives.library import Library
from sim_server.collectives.selection import Selection
from sim_server.collectives.tuning import Algorithm, Protocol
from sim_server.errors import UsageError
from sim_server.network import Gpu, Topology
from sim_server.records import NcclOpKind
from sim_server.records.operations import Operation

INT8, HALF = 0, 6
AVERAGE = 4


def plan(
    cluster: str,
    nodes: int,
    size_bytes: int,
    *,
    dtype: int = HALF,
    reduction: int = 0,
    environment: Mapping[str, str] | None = None,
    kind: int = 1,
) -> tuple[Algorithm, Protocol]:
    communication = Communication(simpy.Environment(), load_cluster(cluster), nodes, 8, environment)
    count = size_bytes // (2 if dtype == HALF else 1)
    operation = Operation(
        NcclOpKind(kind), count, dtype, tuple(range(8 * nodes)), reduction=reduction
    )
    chosen = communication.plan(operation)
    return chosen.algorithm, chosen.protocol


@pytest.mark.parametrize(
    ("cluster", "nodes", "size_bytes", "expected"),
    [
        ("h100", 1, 1024, (Algorithm.RING, Protocol.LL)),
        ("h100", 1, 2**20, (Algorithm.RING, Protocol.LL128)),
        ("h100", 1, 2**29, (Algorithm.NVLS, Protocol.SIMPLE)),
        ("a100", 1, 2**29, (Algorithm.RING, Protocol.SIMPLE)),
        ("h100", 4, 1024, (Algorithm.TREE, Protocol.LL)),
        ("h100", 2, 2**30, (Algorithm.NVLS_TREE, Protocol.SIMPLE)),
    ],
)
def test_all_reduce_choice(
    cluster: str, nodes: int, size_bytes: int, expected: tuple[Algorithm, Protocol]
) -> None:
    """Latency decides for small sizes, bandwidth for large ones, NVLS only where there is one."""
    assert plan(cluster, nodes, size_bytes) == expected


def test_switch_adds_only_what_it_can() -> None:
    """8-bit integers and averages go round the ring: the NVSwitch cannot reduce them."""
    for dtype, reduction in ((INT8, 0), (HALF, AVERAGE)):
        assert plan("h100", 1, 2**29, dtype=dtype, reduction=reduction)[0] is Algorithm.RING


@pytest.mark.parametrize(
    ("environment", "algorithm"),
    [
        ({"NCCL_ALGO": "Ring"}, Algorithm.RING),
        ({"NCCL_ALGO": "ring,tree"}, Algorithm.RING),
        ({"NCCL_ALGO": "^NVLS"}, Algorithm.RING),
        ({"NCCL_ALGO": "Tree"}, Algorithm.TREE),
        ({"NCCL_ALGO": "^PAT,CollnetDirect"}, Algorithm.NVLS),
    ],
)
def test_user_chooses_algorithm(environment: Mapping[str, str], algorithm: Algorithm) -> None:
    """NCCL_ALGO is honoured, with lists and exclusions."""
    assert plan("h100", 1, 2**29, environment=environment)[0] is algorithm


def test_user_chooses_protocol() -> None:
    """NCCL_PROTO is honoured; operations without a choice of algorithm ignore NCCL_ALGO."""
    environment = {"NCCL_PROTO": "LL", "NCCL_ALGO": "Tree"}
    all_gather = plan("h100", 1, 2**29, environment=environment, kind=4)
    assert all_gather == (Algorithm.RING, Protocol.LL)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"NCCL_PROTO": "LL64"},
            "NCCL_PROTO=LL64: 'll64' is not modelled; known are LL, LL128, Simple",
        ),
        (
            {"NCCL_ALGO": "NVLS", "NCCL_PROTO": "LL"},
            "NCCL_ALGO and NCCL_PROTO leave no way to do ALL_REDUCE; unset one of them",
        ),
    ],
)
def test_impossible_choice_is_refused(environment: Mapping[str, str], message: str) -> None:
    """The message names the variable and what it may hold."""
    with pytest.raises(UsageError) as error:
        plan("h100", 1, 2**29, environment=environment)
    assert str(error.value) == message


def test_unknown_tuning_is_refused() -> None:
    """A cluster file with a wrong `collectives` is the user's error."""
    cluster = dataclasses.replace(load_cluster("h100"), collectives="hoper")
    with pytest.raises(UsageError, match='collectives = "hoper" is not a known tuning'):
        Communication(simpy.Environment(), cluster, 1, 8)


@pytest.mark.parametrize("name", ["a100", "b200", "h100", "h200"])
def test_time_grows_with_size(name: str) -> None:
    """No size is faster than a smaller one: the choice has no cliffs downwards."""
    communication = Communication(simpy.Environment(), load_cluster(name), 1, 8)
    last_ns = 0.0
    for power in range(4, 32):
        operation = Operation(NcclOpKind.ALL_REDUCE, 2**power, INT8, tuple(range(8)))
        chosen = communication.plan(operation)
        flow = chosen.demands[0]
        time_ns = chosen.startup_ns + flow.size_bytes / flow.cap_bytes_per_s * 1e9
        assert time_ns >= last_ns
        last_ns = time_ns


@pytest.mark.parametrize("kind", [NcclOpKind.ALL_REDUCE, NcclOpKind.ALL_GATHER])
def test_lines_are_the_estimates_of_every_size(kind: NcclOpKind) -> None:
    """What costs are fitted by is what the choice goes by, before and after the kink of filling."""
    h100 = load_cluster("h100")
    topology = Topology(h100, 2)
    selection = Selection(topology, Library(h100, 2, h100.calibration), NcclEnvironment.read({}))
    group = Group(range(16), [Gpu(*divmod(rank, 8)) for rank in range(16)])
    for count in (1, 1 << 10, 1 << 20, 1 << 30):
        operation = Operation(kind, count, 0, tuple(range(16)))
        lines = selection.lines(dataclasses.replace(operation, count=7), group)
        size = operation.buffer_bytes
        found = {
            way: line.base_ns
            + line.ns_per_byte * size
            + line.fill_ns_per_byte * min(size, line.fill_bytes)
            for way, line in lines.items()
        }
        assert found == pytest.approx(selection.estimates_ns(operation, group), rel=1e-9)
