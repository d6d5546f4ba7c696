"""From a signature to a timing: the entry of this package.

Every launch gets a duration and a tier; nothing is free and nothing is guessed without saying so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import ceil
from typing import Any, Protocol, cast

from sim_server.gpu import GpuProfile
from sim_server.kernels.gemm import time_gemm
from sim_server.kernels.grouped import time_grouped
from sim_server.kernels.interval import with_interval
from sim_server.kernels.library import time_library
from sim_server.kernels.rules import classify
from sim_server.kernels.timing import Tier, Timing
from sim_server.kernels.work import Launch, Work
from sim_server.records.payloads import GroupedGemm, Kernel, ProductSignature


class Timer(Protocol):
    """Whatever times signatures."""

    def time(self, signature: Mapping[str, Any]) -> Timing:
        """The timing of one launch."""


class KernelTimer:
    """Times signatures (docs/records.md) on one GPU model. Equal signatures give equal timings."""

    def __init__(self, gpu: GpuProfile) -> None:
        self._gpu = gpu
        self._timings: dict[str, Timing] = {}

    def time(self, signature: Mapping[str, Any]) -> Timing:
        """The timing of one launch. Raises: ValueError for an unknown kind of signature."""
        key = json.dumps(signature, sort_keys=True)
        timing = self._timings.get(key)
        if timing is None:
            timing = self._timings[key] = self._compute(signature)
        return timing

    def _compute(self, signature: Mapping[str, Any]) -> Timing:
        return with_interval(self._model(signature), self._gpu)

    def _model(self, signature: Mapping[str, Any]) -> Timing:
        kind = signature.get("kind")
        if kind == "gemm" and signature.get("grouped"):
            return time_grouped(cast(GroupedGemm, signature), self._gpu)
        if kind == "gemm":
            return time_gemm(cast(ProductSignature, signature), self._gpu)
        if kind == "library":
            return time_library(signature, self._gpu)
        if kind == "kernel":
            return self._time_kernel(Launch.from_signature(cast(Kernel, signature)))
        raise ValueError(f"a signature of kind {kind!r} is none of docs/records.md")

    def _time_kernel(self, launch: Launch) -> Timing:
        kernel_class, rule = classify(launch)
        work = rule.estimate(launch, self._gpu)
        duration_ns = work.duration_ns(self._gpu, launch.blocks)
        is_sound = work.sound and not launch.host_bytes
        if launch.host_bytes:
            crossing_bytes = work.crossing_bytes(self._gpu, launch.host_bytes)
            duration_ns = max(duration_ns, self._crossing_ns(crossing_bytes))
        return Timing(
            duration_ns=ceil(duration_ns),
            tier=Tier.MODELLED if is_sound else Tier.ASSUMED,
            kernel_class=kernel_class,
            name=launch.name.short,
            sm_demand=launch.sm_demand(self._gpu),
            region=kernel_region(work, self._gpu),
        )

    def _crossing_ns(self, moved_bytes: float) -> float:
        """Of a kernel that reads or writes the host's memory, as a copy of pinned memory does."""
        floor_ns = self._gpu.execution["kernel_floor_ns"]
        return floor_ns + moved_bytes * 1e9 / self._gpu.copies["pinned_bytes_per_s"]


def kernel_region(work: Work, gpu: GpuProfile) -> str:
    """What the error of a kernel depends on within its class."""
    return work.region or ("cached" if work.bytes < gpu.l2_bytes else "")
