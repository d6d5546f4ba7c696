"""Of two settings that were measured, the model picks the faster one."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import simpy

from sim_server.cluster import load_cluster
from sim_server.collectives import Communication
from sim_server.records import NcclOpKind
from sim_server.records.operations import PER_RANK_KINDS, Operation

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "clusters"
HALF = 6


class Setting(NamedTuple):
    """What was measured, and the time that was published."""

    cluster: str
    nodes: int
    gpus_per_node: int
    time_us: float


# In a node: ai-dynamo/aiconfigurator (commit 095f58a, Apache-2.0), NCCL 2.27 and 2.29. Between
# nodes: H100 with InfiniBand from NVIDIA/nccl-tests issue 309, with EFA from
# aws-samples/awsome-distributed-training.
PAIRS = {
    "generations, large": (
        NcclOpKind.ALL_REDUCE,
        1 << 28,
        Setting("h100", 1, 8, 1092.1),
        Setting("a100", 1, 8, 2182.5),
    ),
    "generations, small": (
        NcclOpKind.ALL_REDUCE,
        1 << 13,
        Setting("h100", 1, 8, 16.4),
        Setting("b300.toml", 1, 8, 25.7),
    ),
    "NVLink and PCIe": (
        NcclOpKind.ALL_GATHER,
        1 << 24,
        Setting("a100", 1, 8, 135.0),
        Setting("rtx_pro_6000.toml", 1, 8, 654.6),
    ),
    "NVLS makes more GPUs faster": (
        NcclOpKind.ALL_REDUCE,
        1 << 28,
        Setting("h100", 1, 8, 1092.1),
        Setting("h100", 1, 4, 1182.5),
    ),
    "more GPUs, small": (
        NcclOpKind.ALL_GATHER,
        1 << 12,
        Setting("h100", 1, 2, 5.6),
        Setting("h100", 1, 8, 10.6),
    ),
    "networks": (
        NcclOpKind.ALL_REDUCE,
        1 << 24,
        Setting("h100", 2, 8, 201.6),
        Setting("p5.toml", 2, 8, 298.1),
    ),
    "more nodes": (
        NcclOpKind.ALL_REDUCE,
        1 << 30,
        Setting("h100", 2, 8, 4497.4),
        Setting("h100", 8, 8, 7370.5),
    ),
}


def simulated_us(kind: NcclOpKind, size_bytes: int, setting: Setting) -> float:
    env = simpy.Environment()
    name = setting.cluster
    cluster = load_cluster(str(BENCHMARKS / name) if name.endswith(".toml") else name)
    communication = Communication(env, cluster, setting.nodes, setting.gpus_per_node)
    ranks = setting.nodes * setting.gpus_per_node
    count = size_bytes // 2 // (ranks if kind in PER_RANK_KINDS else 1)
    env.run(communication.start(Operation(kind, count, HALF, tuple(range(ranks)))))
    return float(env.now) / 1e3


@pytest.mark.parametrize("pair", PAIRS)
def test_faster_setting_is_picked(pair: str) -> None:
    """The simulated times are in the order of the measured ones, and within a quarter of them."""
    kind, size_bytes, fast, slow = PAIRS[pair]
    assert slow.time_us > 1.05 * fast.time_us
    times_us = [simulated_us(kind, size_bytes, setting) for setting in (fast, slow)]
    assert times_us[0] < times_us[1]
    assert times_us == pytest.approx([fast.time_us, slow.time_us], rel=0.25)
