"""Parts of a cluster that are so many times as fast or as slow: `--scale nic=2`.

Owns what each part is made of. Kernels by name or class are `sim_server.kernels.scaled`'s.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from sim_server.cluster import Cluster
from sim_server.cluster.description import GpuLinks, NodeType
from sim_server.errors import UsageError
from sim_server.gpu import GpuProfile
from sim_server.gpu.changes import changed_gpu
from sim_server.settings import Settings

PARTS = {
    "memory": "bandwidth of the GPUs' memory",
    "nvlink": "bandwidth between GPUs of a node: NVLink, or PCIe where there is none",
    "nic": "bandwidth of NICs, and of the links between switches",
    "latency": "latency of links, switches and collectives",
    "host": "time of the program between its calls",
}
"""What may be scaled: bandwidths are multiplied, latency and host time as well."""

_OneNode = TypeVar("_OneNode", bound=NodeType)


def parse_parts(texts: Sequence[str]) -> dict[str, float]:
    """`nic=2`. Raises: UsageError."""
    parts: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            factor = float(number)
        except ValueError:
            factor = math.nan
        if name not in PARTS:
            near = difflib.get_close_matches(name, PARTS, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(PARTS)}."
            raise UsageError(f"--scale {text!r}: '{name}' is no part that can be scaled; {hint}")
        if not 0 < factor < math.inf:
            raise UsageError(
                f"--scale {text!r}: write for example {name}=1.1, a factor above 0 on the "
                f"{PARTS[name]}."
            )
        if name in parts:
            raise UsageError(f"--scale {name} is given twice.")
        parts[name] = factor
    return parts


def scale_settings(settings: Settings, parts: Mapping[str, float]) -> Settings:
    """The settings with links, latencies and memory scaled. Host time is in the records."""
    return replace(
        settings,
        cluster=_scaled_cluster(settings.cluster, parts),
        gpu=_scaled_gpu(settings.gpu, parts),
        other_gpus={name: _scaled_gpu(gpu, parts) for name, gpu in settings.other_gpus.items()},
    )


def _times(value: int, factor: float) -> int:
    """A rate or a latency stays whole; nothing stays nothing."""
    return max(round(value * factor), 1) if value else 0


def _scaled_gpu(gpu: GpuProfile, parts: Mapping[str, float]) -> GpuProfile:
    """Under its own name: what was measured on it is scaled by the models (`RatioTimer`)."""
    memory, nvlink = parts.get("memory", 1.0), parts.get("nvlink", 1.0)
    if memory != 1:
        rate = round(gpu.memory["bandwidth_bytes_per_s"] * memory)
        gpu = changed_gpu(gpu, gpu.profile, name=gpu.name, bandwidth_bytes_per_s=rate)
    if nvlink != 1:
        peer = _times(gpu.copies["peer_bytes_per_s"], nvlink)
        gpu = replace(gpu, copies={**gpu.copies, "peer_bytes_per_s": peer})
    return gpu


def _scaled_cluster(cluster: Cluster, parts: Mapping[str, float]) -> Cluster:
    nic, latency = parts.get("nic", 1.0), parts.get("latency", 1.0)
    fabric, factors = cluster.fabric, cluster.calibration
    return replace(
        _scaled_node(cluster, parts),
        node_groups=tuple(_scaled_node(one, parts) for one in cluster.node_groups),
        nic_exceptions=tuple(
            replace(one, bandwidth_bytes_per_s=_times(one.bandwidth_bytes_per_s, nic))
            for one in cluster.nic_exceptions
        ),
        fabric=replace(
            fabric,
            latency_ns=_times(fabric.latency_ns, latency),
            link_bytes_per_s=fabric.link_bytes_per_s and _times(fabric.link_bytes_per_s, nic),
            links=tuple(
                replace(
                    link,
                    bandwidth_bytes_per_s=_times(link.bandwidth_bytes_per_s, nic),
                    latency_ns=_times(link.latency_ns, latency),
                )
                for link in fabric.links
            ),
        ),
        calibration=replace(
            factors,
            base_latency=factors.base_latency * latency,
            gpu_latency=factors.gpu_latency * latency,
            network_latency=factors.network_latency * latency,
        ),
    )


def _scaled_node(node: _OneNode, parts: Mapping[str, float]) -> _OneNode:
    inside, latency = parts.get("nvlink", 1.0), parts.get("latency", 1.0)
    nvlink, nic, host = node.nvlink, node.nic, node.host
    pcie = inside if node.gpu_links is GpuLinks.PCIE else 1.0
    return replace(
        node,
        nvlink=replace(
            nvlink,
            bandwidth_bytes_per_s=_times(nvlink.bandwidth_bytes_per_s, inside),
            latency_ns=_times(nvlink.latency_ns, latency),
        ),
        nic=replace(
            nic,
            bandwidth_bytes_per_s=_times(nic.bandwidth_bytes_per_s, parts.get("nic", 1.0)),
            latency_ns=_times(nic.latency_ns, latency),
            pcie_bandwidth_bytes_per_s=_times(nic.pcie_bandwidth_bytes_per_s, pcie),
            pcie_latency_ns=_times(nic.pcie_latency_ns, latency),
        ),
        host=replace(
            host,
            uplink_bytes_per_s=host.uplink_bytes_per_s and _times(host.uplink_bytes_per_s, pcie),
            bandwidth_bytes_per_s=host.bandwidth_bytes_per_s
            and _times(host.bandwidth_bytes_per_s, pcie),
        ),
    )
