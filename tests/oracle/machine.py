"""The machine of the oracle's tests, in round numbers, so that exact arithmetic can be compared.

One node; every GPU has a port of 1 byte/ns each way. Collectives cost their flows and the latency
of their steps. The oracle reads the constants, the system gets `settings`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sim_server.cluster import load_cluster
from sim_server.gpu import load_gpu
from sim_server.kernels import Tier, Timing
from sim_server.records.payloads import Kernel
from sim_server.settings import Settings

MOST_RANKS = 6
SM_COUNT, NCCL_SM_COUNT = 100, 20
LINK_LATENCY_NS = 3
LINK_BYTES_PER_S = 10**9

PINNED = (10, 10**9)
PAGEABLE = (20, 5 * 10**8)
PEER = (5, 2 * 10**9)
HOST = (20, 2 * 10**9)
DEVICE_LATENCY_NS = 4
FILL_LATENCY_NS = 0
MEMORY_BYTES_PER_S = 4 * 10**9
"""A copy inside a device reads and writes: half of it."""


@functools.cache
def settings(ranks: int) -> Settings:
    """A run on this machine."""
    h100 = load_gpu("h100")
    gpu = replace(
        h100,
        properties={**h100.properties, "multiProcessorCount": SM_COUNT},
        memory={**h100.memory, "bandwidth_bytes_per_s": MEMORY_BYTES_PER_S, "efficiency": 1.0},
        execution={**h100.execution, "nccl_sms": NCCL_SM_COUNT},
        copies={
            "pinned_latency_ns": PINNED[0],
            "pinned_bytes_per_s": PINNED[1],
            "pageable_latency_ns": PAGEABLE[0],
            "pageable_bytes_per_s": PAGEABLE[1],
            "peer_latency_ns": PEER[0],
            "peer_bytes_per_s": PEER[1],
            "host_bytes_per_s": HOST[1],
            "device_latency_ns": DEVICE_LATENCY_NS,
            "fill_latency_ns": FILL_LATENCY_NS,
        },
    )
    cluster = load_cluster("h100")
    nvlink = replace(
        cluster.nvlink, bandwidth_bytes_per_s=LINK_BYTES_PER_S, latency_ns=LINK_LATENCY_NS
    )
    ideal = replace(cluster, collectives="ideal", nvlink=nvlink)
    return Settings(ranks, 1, ranks, ideal, gpu)


class StatedTimes:
    """Times kernels by what their signature says. Stands in for the models of kernel times."""

    def time(self, signature: Mapping[str, Any]) -> Timing:
        """The timing of `stated_signature`."""
        (_, duration_ns), (_, eighths) = signature["scalars"]
        return Timing(duration_ns, Tier.ASSUMED, "stated", f"{duration_ns}", eighths / 8)


def stated_signature(duration_ns: int, eighths: int) -> bytes:
    """The payload of a Signature record: a kernel whose arguments say how long it takes, and how
    many eighths of the multiprocessors.
    """
    signature: Kernel = {
        "kind": "kernel",
        "name": "stated",
        "grid": (1, 1, 1),
        "block": (1, 1, 1),
        "shared_bytes": 0,
        "scalars": [(0, duration_ns), (1, eighths)],
    }
    return json.dumps(signature).encode()
