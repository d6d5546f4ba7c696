"""Rates of copies and fills, for the device engine's copy engines."""

from __future__ import annotations

from sim_server.gpu import GpuProfile
from sim_server.records import CopyKind

Rate = tuple[int, float]
"""Latency in nanoseconds and bytes per second."""


def copy_rates(gpu: GpuProfile) -> dict[tuple[int, bool], Rate]:
    """The rate of every copy kind, keyed by (kind, whether host memory is pageable)."""
    table = gpu.copies
    pinned = (table["pinned_latency_ns"], float(table["pinned_bytes_per_s"]))
    pageable = (table["pageable_latency_ns"], float(table["pageable_bytes_per_s"]))
    # A device-to-device copy reads and writes: half the streaming rate.
    inside = (table["device_latency_ns"], gpu.bandwidth_bytes_per_ns * 1e9 / 2)
    peer = (table["peer_latency_ns"], float(table["peer_bytes_per_s"]))
    host = (table["pageable_latency_ns"], float(table["host_bytes_per_s"]))
    rates: dict[tuple[int, bool], Rate] = {}
    for is_pageable in (False, True):
        link = pageable if is_pageable else pinned
        rates[CopyKind.HOST_TO_DEVICE, is_pageable] = link
        rates[CopyKind.DEVICE_TO_HOST, is_pageable] = link
        rates[CopyKind.DEVICE_TO_DEVICE, is_pageable] = inside
        rates[CopyKind.PEER_TO_PEER, is_pageable] = peer
        rates[CopyKind.HOST_TO_HOST, is_pageable] = host
    return rates


def fill_rate(gpu: GpuProfile) -> Rate:
    """The rate of cudaMemsetAsync."""
    return gpu.copies["fill_latency_ns"], gpu.bandwidth_bytes_per_ns * 1e9
