"""What the simulation took of this machine."""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from phantora_py.report.findings import Findings
from phantora_py.text.units import size_text


class WallTime(TypedDict):
    """Of the simulation, on this machine."""

    total_s: float
    startup_s: float
    """Until the first rank was ready."""
    core_seconds: float
    hosts: int
    """On how many it ran."""
    per_iteration_s: float | None
    """After the start-up, the warm-up iteration counted as one; null without iterations."""


class HostMemory(TypedDict):
    """Of this machine, at its peak as far as it was weighed. PSS counts what is shared in parts."""

    median_rank_pss_bytes: int
    """Ranks count from the first iteration on."""
    max_rank_pss_bytes: int
    ranks_weighed: int
    total_pss_bytes: int
    """Of everything that ran, at any time."""


def make_wall(found: Findings) -> WallTime | None:
    """None if the run broke off."""
    wall = found.data.run.get("wall")
    if not wall:
        return None
    count = found.iterations.count
    each_s = (wall["total_s"] - wall["startup_s"]) / (count + 1) if count else None
    hosts = len(found.data.run.get("hosts", [None]))
    made: WallTime = wall | {"hosts": hosts, "per_iteration_s": each_s}
    return made


def make_memory(found: Findings) -> HostMemory | None:
    """None if the run broke off, was resimulated, or was too short for a rank to be weighed."""
    weighed = found.data.run.get("host_memory") or {"pss_bytes": {}}
    per_rank = [int(pss) for pss in weighed["pss_bytes"].values()]
    if not per_rank:
        return None
    return {
        "median_rank_pss_bytes": int(np.median(per_rank)),
        "max_rank_pss_bytes": max(per_rank),
        "ranks_weighed": len(per_rank),
        "total_pss_bytes": weighed["total_bytes"],
    }


def lines(wall: WallTime | None, host_memory: HostMemory | None) -> list[str]:
    """On a terminal."""
    if wall is None:
        return []
    hosts = f" on {wall['hosts']} hosts" if wall["hosts"] > 1 else ""
    memory = ""
    if host_memory is not None:
        memory = (
            f", memory {size_text(host_memory['total_pss_bytes'])} (PSS; a rank "
            f"{size_text(host_memory['median_rank_pss_bytes'])}, at most "
            f"{size_text(host_memory['max_rank_pss_bytes'])})"
        )
    return [
        f"wall {wall['total_s']:.1f} s (start-up {wall['startup_s']:.1f} s), "
        f"{wall['core_seconds']:.1f} core-seconds{hosts}{memory}"
    ]
