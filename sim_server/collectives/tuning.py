"""Costs of NCCL's algorithms and protocols, by GPU generation.

Structure: as in NCCL's own cost model (src/graph/tuning.cc of NCCL 2.20.3, commit b6475625): a base
latency, a latency per step inside and between nodes, and a bandwidth, each per algorithm and
protocol. Two terms are ours: the pipeline's filling time, which grows with the size up to a limit,
and the cost of the part of the buffer that a rank only copies or combines within itself.

Values, unless a line says otherwise:
* inside a node: least squares on the logarithm of the times of nccl-tests on 2, 4 and 8 GPUs, 512 B
  to 512 MB, NCCL 2.27 and 2.29, as published by ai-dynamo/aiconfigurator (commit 095f58a,
  Apache-2.0): "ampere" on A100 SXM, "hopper" on H100 SXM, "blackwell" on B300 SXM. Coefficients
  only, no data.
* between nodes: set by hand so as to meet published nccl-tests of 2, 4 and 8 nodes: H100 from
  NVIDIA/nccl-tests issues 290 and 309, A100 from argonne-lcf/alcf-nccl-tests (DGX A100, HDR).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Algorithm(str, Enum):
    """As in NCCL_ALGO, plus DIRECT for what NCCL does by sends and receives."""

    RING = "Ring"
    TREE = "Tree"
    NVLS = "NVLS"
    NVLS_TREE = "NVLSTree"
    DIRECT = "Direct"


class Protocol(str, Enum):
    """As in NCCL_PROTO."""

    LL = "LL"
    LL128 = "LL128"
    SIMPLE = "Simple"


@dataclass(frozen=True)
class Cost:
    """What an algorithm costs under one protocol."""

    base_ns: int
    """Before the first step: launch on the device, setting up."""
    nvlink_step_ns: int
    """Each step inside a node, on top of the links' latency."""
    network_step_ns: int
    """Each step between nodes, on top of the links' latency."""
    nvlink_efficiency: float
    """Part of NVLink's capacity that carries payload."""
    network_efficiency: float
    """Part of the network's capacity that carries payload."""
    own_weight: float = 0.0
    """Cost of a byte of the rank's own part, in bytes sent over NVLink."""
    fill_limit_bytes: int = 0
    """Bytes sent by a rank up to which filling the pipeline takes longer the more there are."""
    fill_ns_per_mb: float = 0.0
    """Time to fill the pipeline, per 10^6 bytes sent by a rank, up to `fill_limit_bytes`."""
    message_ns: int = 0
    """Each message that a rank issues."""


Tuning = Mapping[tuple[Algorithm, Protocol], Cost]

_AMPERE: Tuning = {
    (Algorithm.RING, Protocol.LL): Cost(8_059, 424, 6_200, 0.0222, 0.02, 0.391),
    (Algorithm.RING, Protocol.LL128): Cost(10_778, 461, 20_000, 0.319, 0.30, 0.391),
    (Algorithm.RING, Protocol.SIMPLE): Cost(
        23_696, 500, 12_200, 0.740, 0.89, 0.391, 15_277_000, 1.832
    ),
    # Trees on A100 inside a node as its rings, between nodes as on H100: assumed.
    (Algorithm.TREE, Protocol.LL): Cost(8_059, 424, 6_200, 0.0222, 0.02),
    (Algorithm.TREE, Protocol.LL128): Cost(10_778, 461, 8_500, 0.319, 0.18),
    (Algorithm.TREE, Protocol.SIMPLE): Cost(
        38_696, 4_000, 16_000, 0.740, 0.82, 0.0, 130_000_000, 0.35
    ),
    (Algorithm.DIRECT, Protocol.LL): Cost(8_383, 0, 36_000, 0.0178, 0.02, 0.246, message_ns=839),
    (Algorithm.DIRECT, Protocol.SIMPLE): Cost(
        12_784, 0, 48_000, 0.687, 0.85, 0.246, 2_764_000, 8.18, message_ns=83
    ),
}

_HOPPER: Tuning = {
    (Algorithm.RING, Protocol.LL): Cost(4_731, 299, 2_900, 0.0320, 0.02, 0.563),
    (Algorithm.RING, Protocol.LL128): Cost(5_381, 400, 5_700, 0.391, 0.30, 0.563),
    (Algorithm.RING, Protocol.SIMPLE): Cost(
        14_993, 500, 12_200, 0.849, 0.93, 0.563, 40_646_000, 0.487
    ),
    (Algorithm.TREE, Protocol.LL): Cost(4_731, 299, 2_900, 0.0320, 0.02),
    (Algorithm.TREE, Protocol.LL128): Cost(5_381, 400, 5_700, 0.391, 0.18),
    (Algorithm.TREE, Protocol.SIMPLE): Cost(
        29_993, 4_000, 16_000, 0.849, 0.86, 0.0, 130_000_000, 0.35
    ),
    (Algorithm.NVLS, Protocol.SIMPLE): Cost(69_000, 0, 0, 0.658, 1.0),
    (Algorithm.NVLS_TREE, Protocol.SIMPLE): Cost(
        91_000, 0, 12_200, 0.629, 0.93, 0.0, 72_000_000, 1.25
    ),
    (Algorithm.DIRECT, Protocol.LL): Cost(5_458, 0, 18_000, 0.0222, 0.02, 0.171, message_ns=274),
    (Algorithm.DIRECT, Protocol.SIMPLE): Cost(
        11_690, 0, 30_000, 0.738, 0.85, 0.171, 14_595_000, 1.04
    ),
}

# Between nodes: as "hopper", assumed.
_BLACKWELL: Tuning = {
    (Algorithm.RING, Protocol.LL): Cost(6_894, 808, 2_900, 0.0217, 0.02, 0.820),
    (Algorithm.RING, Protocol.LL128): Cost(7_729, 837, 5_700, 0.335, 0.30, 0.820),
    (Algorithm.RING, Protocol.SIMPLE): Cost(10_733, 6_420, 12_200, 0.854, 0.93, 0.820),
    (Algorithm.TREE, Protocol.LL): Cost(6_894, 808, 2_900, 0.0217, 0.02),
    (Algorithm.TREE, Protocol.LL128): Cost(7_729, 837, 5_700, 0.335, 0.18),
    (Algorithm.TREE, Protocol.SIMPLE): Cost(
        29_993, 6_420, 16_000, 0.854, 0.86, 0.0, 130_000_000, 0.35
    ),
    (Algorithm.NVLS, Protocol.SIMPLE): Cost(95_000, 0, 0, 0.541, 1.0),
    (Algorithm.NVLS_TREE, Protocol.SIMPLE): Cost(
        91_000, 0, 12_200, 0.541, 0.93, 0.0, 72_000_000, 1.25
    ),
    (Algorithm.DIRECT, Protocol.LL): Cost(8_257, 0, 18_000, 0.0289, 0.02, 0.919, message_ns=302),
    (Algorithm.DIRECT, Protocol.SIMPLE): Cost(
        14_066, 0, 30_000, 0.758, 0.85, 0.919, 33_419_000, 0.43, message_ns=260
    ),
}

# A library that costs nothing: only the links count. For tests and for bounds.
_IDEAL: Tuning = {
    (Algorithm.RING, Protocol.SIMPLE): Cost(0, 0, 0, 1.0, 1.0),
    (Algorithm.DIRECT, Protocol.SIMPLE): Cost(0, 0, 0, 1.0, 1.0),
}

TUNINGS: Mapping[str, Tuning] = {
    "ampere": _AMPERE,
    "hopper": _HOPPER,
    "blackwell": _BLACKWELL,
    "ideal": _IDEAL,
}


def comm_init_ns(ranks: int) -> int:
    """Duration of the creation of a communicator of `ranks` ranks.

    Source: assumed; NCCL's own log ("Init timings") shows a few tenths of a second for 8 ranks,
    growing with the number of ranks that exchange addresses.
    """
    return 150_000_000 + 5_000_000 * ranks
