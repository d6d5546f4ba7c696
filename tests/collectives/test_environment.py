"""The NCCL_* variables of the user."""

from __future__ import annotations

from typing import Any

import pytest
import simpy
from clusters import round_cluster

from sim_server.cluster import Calibration, load_cluster
from sim_server.collectives import Communication
from sim_server.collectives.environment import NcclEnvironment, nccl_variables, not_modelled
from sim_server.collectives.selection import Plan
from sim_server.collectives.tuning import Algorithm, Protocol, load_tuning
from sim_server.errors import UsageError
from sim_server.records import NcclOpKind
from sim_server.records.operations import Operation

INT8, HALF = 0, 6
GIB = 1 << 30
RING_COST = load_tuning("hopper", "infiniband-ndr", Calibration())[Algorithm.RING, Protocol.SIMPLE]


def plan(nodes: int, size_bytes: int, kind: int = 1, **variables: str) -> Plan:
    """How the h100 cluster does an operation under some variables."""
    environment = {f"NCCL_{name}": value for name, value in variables.items()}
    communication = Communication(simpy.Environment(), load_cluster("h100"), nodes, 8, environment)
    ranks = tuple(range(8 * nodes))
    parts = 1 if kind in (1, 2) else len(ranks)
    return communication.plan(Operation(NcclOpKind(kind), size_bytes // 2 // parts, HALF, ranks))


@pytest.mark.parametrize(
    ("nodes", "size_bytes", "variables", "channels"),
    [
        # Two rings for each NIC between nodes, 24 inside one; NVLS needs 16.
        (1, GIB, {"ALGO": "Ring"}, 24),
        (2, GIB, {"ALGO": "Ring"}, 16),
        (1, GIB, {}, 16),
        (1, GIB, {"MAX_NCHANNELS": "8"}, 8),
        (1, GIB, {"ALGO": "Ring", "MAX_NCHANNELS": "4"}, 4),
        (1, GIB, {"ALGO": "Ring", "MIN_NCHANNELS": "32"}, 32),
        (1, GIB, {"ALGO": "Ring", "MIN_NCHANNELS": "32", "MAX_NCHANNELS": "2"}, 2),
        (1, GIB, {"ALGO": "Ring", "MAX_NRINGS": "4"}, 4),
        (1, GIB, {"ALGO": "Ring", "MAX_NRINGS": "4", "MAX_NCHANNELS": "6"}, 6),
        (1, GIB, {"ALGO": "Ring", "MIN_NCHANNELS": "100"}, 64),
        # LL: 512 threads of 8 bytes for each of 8 ranks are 32 KiB a channel.
        (1, 4096, {"ALGO": "Ring", "PROTO": "LL"}, 1),
        (1, 1 << 17, {"ALGO": "Ring", "PROTO": "LL"}, 4),
        (1, 1 << 18, {"ALGO": "Ring", "PROTO": "Simple"}, 8),
    ],
)
def test_channels(nodes: int, size_bytes: int, variables: dict[str, Any], channels: int) -> None:
    """As many as NCCL makes, within the user's limits, and fewer for small sizes."""
    assert plan(nodes, size_bytes, **variables).channels == channels


def test_channels_of_an_exchange_are_a_power_of_two() -> None:
    """All-to-all uses the channels of sends and receives."""
    assert plan(1, GIB, kind=8).channels == 32
    assert plan(1, GIB, kind=8, MAX_NCHANNELS="6").channels == 8


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_few_channels_bound_the_bandwidth(channels: int) -> None:
    """A Hopper GPU's channel carries 38.7 GB/s; the choice knows that too."""
    chosen = plan(1, GIB, ALGO="Ring", MAX_NCHANNELS=str(channels))
    flow = chosen.demands[0]
    seconds = flow.size_bytes / flow.cap_bytes_per_s
    assert seconds == pytest.approx(2 * 7 / 8 * GIB / (channels * 38.7e9))


def test_an_exchange_is_bound_by_its_channels_too() -> None:
    """With one channel each rank sends its 7/8 of the buffer at the rate of a channel."""
    flow = plan(1, GIB, kind=8, MAX_NCHANNELS="1").demands[0]
    seconds = flow.size_bytes / flow.cap_bytes_per_s
    assert seconds == pytest.approx(7 / 8 * GIB / 38.7e9)


def test_default_channels_bound_nothing() -> None:
    """Asking for what there is anyway changes no time."""
    asked = plan(1, GIB, ALGO="Ring", MAX_NCHANNELS="24", MIN_NCHANNELS="24")
    assert asked == plan(1, GIB, ALGO="Ring")


def test_small_buffers_bound_the_bandwidth() -> None:
    """A channel carries a buffer per step: 24 x 8 KiB in the time of a step and 500 ns of its
    links."""
    step_s = (RING_COST.inside.step_ns + 500) / 1e9
    flow = plan(1, GIB, ALGO="Ring", PROTO="Simple", BUFFSIZE="8192").demands[0]
    seconds = flow.size_bytes / flow.cap_bytes_per_s
    assert seconds == pytest.approx(2 * 7 / 8 * GIB / (24 * 8192 / step_s))
    default = plan(1, GIB, ALGO="Ring", PROTO="Simple")
    assert plan(1, GIB, ALGO="Ring", PROTO="Simple", BUFFSIZE="4194304") == default


def test_nvls_can_be_switched_off() -> None:
    """Then a ring does it; without peer-to-peer access there is no NVLS either."""
    assert plan(1, GIB).algorithm is Algorithm.NVLS
    assert plan(1, GIB, NVLS_ENABLE="0").algorithm is Algorithm.RING
    assert plan(1, GIB, NVLS_ENABLE="1").algorithm is Algorithm.NVLS
    assert plan(1, GIB, P2P_DISABLE="1").algorithm is Algorithm.RING
    assert plan(1, 1 << 20, P2P_DISABLE="1").protocol is not Protocol.LL128


def end_ns(ranks: int, nodes: int, **variables: str) -> int:
    """End of an all-gather of 80 MB on the round cluster with faster NVLinks."""
    environment = {f"NCCL_{name}": value for name, value in variables.items()}
    env = simpy.Environment()
    communication = Communication(env, round_cluster(), nodes, 8, environment)
    size_bytes = 80_000_000
    env.run(
        communication.start(
            Operation(NcclOpKind.ALL_GATHER, size_bytes // ranks, INT8, tuple(range(ranks)))
        )
    )
    return int(env.now)


def test_without_peer_to_peer_bytes_go_through_the_host() -> None:
    """On a cluster whose PCIe is as fast as its NVLink that takes as long, over other links."""
    assert end_ns(8, 1, P2P_DISABLE="1") == end_ns(8, 1) == 7_000_000
    chosen = plan(1, GIB, P2P_DISABLE="1")
    # 63 GB/s of PCIe at the ring's efficiency, and the cost of a rank's own part.
    own = 1 + RING_COST.inside.own_weight / 8 / (2 * 7 / 8)
    flow = chosen.demands[0]
    assert flow.size_bytes / flow.cap_bytes_per_s == pytest.approx(
        2 * 7 / 8 * GIB * own / RING_COST.inside.efficiency / 63e9
    )


def test_fewer_nics_share_the_rings() -> None:
    """One NIC carries all eight rings, 15/16 of the buffer, and is the slowest link."""
    assert end_ns(16, 2, IB_HCA="mlx5_3") == 15 * 5_000_000 // 10
    assert end_ns(16, 2, IB_HCA="^mlx5_9") == end_ns(16, 2)


@pytest.mark.parametrize(
    ("text", "nics"),
    [
        ("", (0, 1, 2, 3)),
        ("mlx5", (0, 1, 2, 3)),
        ("mlx5_1", (1,)),
        ("mlx5_0:1,mlx5_3:1", (0, 3)),
        ("^mlx5_1", (0, 2, 3)),
        ("=mlx5_2", (2,)),
        ("^=mlx5_0,mlx5_1", (2, 3)),
        ("mlx4_0,mlx5_2", (2,)),
    ],
)
def test_hca(text: str, nics: tuple[int, ...]) -> None:
    """Prefixes, whole names, ports and exclusions, as in NCCL's user guide."""
    assert NcclEnvironment.read({"NCCL_IB_HCA": text}).used_nics(4) == nics


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"NCCL_MAX_NCHANNELS": "many"}, "NCCL_MAX_NCHANNELS=many: is not a whole number"),
        ({"NCCL_BUFFSIZE": "0"}, "NCCL_BUFFSIZE=0: a buffer has at least one byte"),
        ({"NCCL_IB_HCA": "ib0"}, "NCCL_IB_HCA=ib0 leaves no NIC: .* mlx5_0 to mlx5_7"),
    ],
)
def test_what_cannot_be_understood(variables: dict[str, str], message: str) -> None:
    """The variable is named."""
    with pytest.raises(UsageError, match=message):
        Communication(simpy.Environment(), load_cluster("h100"), 1, 8, variables)


def test_the_rest_is_listed() -> None:
    """What could change times and is not modelled; not what is honoured or only talks."""
    variables = nccl_variables(
        {
            "NCCL_NTHREADS": "256",
            "NCCL_ALGO": "Ring",
            "NCCL_DEBUG": "INFO",
            "NCCL_PXN_DISABLE": "0",
            "NCCL_IB_DISABLE": "1",
            "PATH": "/bin",
        }
    )
    assert not_modelled(variables) == ["NCCL_IB_DISABLE=1", "NCCL_NTHREADS=256"]
