"""Caches of measurements that nobody made: the models of a run's kernels, off by stated amounts.

For benchmarks and tests of what a cache does to a run; they say nothing about real GPUs.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from phantora_py.data import RunData
from sim_server.gpu import GpuProfile
from sim_server.kernels import KernelTimer
from sim_server.kernels.neighbours import place
from sim_server.timing_cache import Entry, Environment, Measurement
from sim_server.timing_cache.entry import signature_key

# By how much the models of a family are off at most, by how much that changes from size to size,
# and the noise of a measurement.
FAMILY_BIAS, SIZE_BIAS, NOISE = 0.10, 0.05, 0.03


def synthetic_entries(data: RunData, signatures: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """One per signature; the same at every call."""
    gpu = _gpu(data)
    models = KernelTimer(gpu)
    environment = Environment(gpu.name, "synthetic", data.run["versions"]["cuda"], "synthetic")
    entries = []
    for signature in signatures:
        chance = random.Random(signature_key(signature))
        factor = _bias(signature) * chance.lognormvariate(0, NOISE)
        middle_ns = models.time(signature).duration_ns * factor
        samples = tuple(middle_ns * share for share in (0.99, 1.0, 1.0, 1.01, 1.02))
        measurement = Measurement(signature, samples, (), 0, "2026-01-01T00:00:00", "synthetic")
        entries.append(Entry(environment, [measurement]))
    return entries


def _bias(signature: Mapping[str, Any]) -> float:
    """Of its family, and slowly of its sizes."""
    family, coordinates = place(signature)
    share = int.from_bytes(hashlib.sha256(family.encode()).digest()[:4], "big") / (1 << 32)
    slowly = math.sin(sum(coordinates) / 4)
    return 1 + FAMILY_BIAS * (2 * share - 1) + SIZE_BIAS * slowly


def _gpu(data: RunData) -> GpuProfile:
    return GpuProfile.from_dict(data.settings["gpu"])
