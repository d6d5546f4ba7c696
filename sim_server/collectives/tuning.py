"""Costs of NCCL's algorithms and protocols: inside a node by kind of GPU, between nodes by network.

Structure: as in NCCL's own cost model (src/graph/tuning.cc of NCCL 2.20.3, commit b6475625): a base
latency, a latency per step inside and between nodes, and a bandwidth, each per algorithm and
protocol. Two terms are ours: the pipeline's filling time, which grows with the size up to a limit,
and the cost of the part of the buffer that a rank only copies or combines within itself.

The values are data: `costs/gpus` and `costs/networks`, one file each, which say where they come
from. A cluster's calibration multiplies them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from pathlib import Path

from sim_server.cluster import Calibration
from sim_server.errors import UsageError
from sim_server.files.toml_file import read_toml

_COSTS = Path(__file__).parent / "costs"


class Algorithm(str, Enum):
    """As in NCCL_ALGO, plus DIRECT for what NCCL does by sends and receives."""

    RING = "Ring"
    TREE = "Tree"
    NVLS = "NVLS"
    NVLS_TREE = "NVLSTree"
    COLLNET_DIRECT = "CollNetDirect"
    COLLNET_CHAIN = "CollNetChain"
    PAT = "PAT"
    DIRECT = "Direct"


class Protocol(str, Enum):
    """As in NCCL_PROTO."""

    LL = "LL"
    LL128 = "LL128"
    SIMPLE = "Simple"


@dataclass(frozen=True)
class Part:
    """What one algorithm costs under one protocol, inside a node or between nodes."""

    base_ns: float = 0
    """Before the first step: launch on the device, setting up; between nodes, what that adds."""
    step_ns: float = 0
    """Each step, on top of the links' latency."""
    efficiency: float = 1.0
    """Part of the links' capacity that carries payload."""
    message_ns: float = 0
    """Each message that a rank issues; between nodes, what a message to another node adds."""
    own_weight: float = 0.0
    """Cost of a byte of the rank's own part, in bytes sent inside the node."""
    fill_limit_bytes: float = 0
    """Bytes up to which filling the pipeline takes longer the more there are: those that a rank
    sends or, in rings of several nodes, a rank's part of the buffer."""
    fill_ns_per_mb: float = 0.0
    """Time to fill the pipeline, per 10^6 of these bytes, up to `fill_limit_bytes`, for each time
    that they are waited for (`waits` of a shape)."""


@dataclass(frozen=True)
class Cost:
    """What an algorithm costs under one protocol."""

    inside: Part
    """In a node."""
    between: Part | None
    """What operations of several nodes cost in addition; their filling time is this one's. None
    where the library does not use this between nodes."""
    passing_efficiency: float | None = None
    """Part of the capacity inside a node that carries payload in operations of several nodes, where
    it is not `inside`'s."""


Way = tuple[Algorithm, Protocol]
Parts = Mapping[Way, Part]
Tuning = Mapping[Way, Cost]


def load_tuning(gpus: str, network: str, calibration: Calibration) -> Tuning:
    """The costs of a kind of GPU on a kind of network.

    The "ideal" library costs nothing anywhere: only the links count. It is for tests and bounds.
    Raises: UsageError for names that are not known.
    """
    inside = _load("gpus", gpus, "collectives")
    between = _load("networks", gpus if gpus == "ideal" else network, "nic.transport")
    if gpus == "ideal":
        return {way: Cost(part, between[way]) for way, part in inside.items()}
    return calibrated(combine(inside, between), calibration)


def combine(inside: Parts, between: Parts) -> Tuning:
    """The costs of a kind of GPU and of a network, together, and what follows from them."""
    measured = {
        way: Cost(part, between.get(way), _passing(way, inside)) for way, part in inside.items()
    }
    return {**measured, **_unmeasured(measured)}


def _passing(way: Way, inside: Parts) -> float | None:
    """LL128 between nodes: as Simple but for its flags, 8 of 128 bytes (assumed). One node uses it
    for buffers that are too small to show what its links carry.
    """
    algorithm, protocol = way
    if protocol is not Protocol.LL128:
        return None
    return inside[algorithm, Protocol.SIMPLE].efficiency * 120 / 128


def _unmeasured(measured: Tuning) -> Tuning:
    """Ways of which no measurements were at hand: what their steps cost in NCCL's own model, and
    the rest as of those that they resemble (assumed).

    Source: hwLat and the factors on bandwidths in src/graph/tuning.cc of NCCL 2.20.3 (commit
    b6475625); for PAT that of 2.24, a logarithmic and a linear part.
    """
    ring = measured[Algorithm.RING, Protocol.SIMPLE]
    assert ring.between is not None, "rings go everywhere"
    efficiency = ring.between.efficiency
    inside = replace(ring.inside, fill_limit_bytes=0, fill_ns_per_mb=0)
    found = {
        Algorithm.PAT: Cost(
            replace(inside, step_ns=0, message_ns=2_800),
            Part(step_ns=28_000 / 3.5, efficiency=0.75 * efficiency),
        ),
        Algorithm.COLLNET_DIRECT: Cost(
            replace(inside, step_ns=3_700, message_ns=400),
            Part(step_ns=31_000, efficiency=0.85 * efficiency),
        ),
        Algorithm.COLLNET_CHAIN: Cost(
            replace(inside, step_ns=2_800), Part(step_ns=30_000, efficiency=efficiency)
        ),
    }
    nvls = measured.get((Algorithm.NVLS, Protocol.SIMPLE))
    if nvls is not None:
        found[Algorithm.NVLS] = Cost(nvls.inside, Part(step_ns=18_000, efficiency=efficiency))
    return {(algorithm, Protocol.SIMPLE): cost for algorithm, cost in found.items()}


def calibrated(tuning: Tuning, calibration: Calibration) -> Tuning:
    """The costs, multiplied by what a cluster's own measurements say."""
    one = calibration
    costs = {}
    for way, cost in tuning.items():
        inside = _scaled(cost.inside, one.base_latency, one.gpu_latency, one.gpu_efficiency)
        between = cost.between and _scaled(
            cost.between, one.network_latency, one.network_latency, one.network_efficiency
        )
        passing = cost.passing_efficiency and cost.passing_efficiency * one.gpu_efficiency
        costs[way] = Cost(inside, between, passing)
    return costs


def read_parts(path: Path) -> Parts:
    """The costs in one file, or in the one that it names with `as` where there is no measurement of
    its own."""
    table = read_toml(path, "costs")
    if "as" in table:
        return read_parts(path.with_name(f"{table['as']}.toml"))
    return {
        (Algorithm(algorithm), Protocol(protocol)): Part(**values)
        for algorithm, protocols in table.items()
        for protocol, values in protocols.items()
    }


def cost_names(folder: str) -> list[str]:
    """Names of the files in `gpus` or `networks`."""
    return sorted(path.stem for path in (_COSTS / folder).glob("*.toml"))


@cache
def _load(folder: str, name: str, key: str) -> Parts:
    if name not in (known := cost_names(folder)):
        raise UsageError(f'{key} = "{name}" is not a known tuning; use one of {", ".join(known)}')
    return read_parts(_COSTS / folder / f"{name}.toml")


def _scaled(part: Part, base: float, latency: float, efficiency: float) -> Part:
    return replace(
        part,
        base_ns=part.base_ns * base,
        message_ns=part.message_ns * base,
        step_ns=part.step_ns * latency,
        fill_ns_per_mb=part.fill_ns_per_mb / efficiency,
        efficiency=part.efficiency * efficiency,
    )


def comm_init_ns(ranks: int) -> int:
    """Duration of the creation of a communicator of `ranks` ranks.

    Source: assumed; NCCL's own log ("Init timings") shows a few tenths of a second for 8 ranks,
    growing with the number of ranks that exchange addresses. At some thousands of GPUs users tell
    of minutes (NVIDIA/nccl issue 1156).
    """
    return 150_000_000 + 5_000_000 * ranks
