"""The summary of a run: the object that `--json` prints and the terminal view is made from.

The shape is public (docs/json.md): keys may be added; the schema's number changes with a meaning.
"""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import Any

import numpy as np

from phantora_py.data import RunData
from phantora_py.report.breakdown import break_down
from phantora_py.report.certainty import certainty
from phantora_py.report.critical_path import critical_path, times_by_cause
from phantora_py.report.iteration_contents import describe
from phantora_py.report.iterations import Iterations, find_iterations
from phantora_py.report.unknown_reads import unknown_reads
from phantora_py.report.unsupported import unsupported_calls
from phantora_py.report.window import last_iteration, steady_window
from sim_server.collectives.environment import not_modelled
from sim_server.kernels import Tier
from sim_server.log.history import HOST_WAIT_SPAN, KERNEL_SPAN

SCHEMA = 2

# What a run that broke off could not say at its end.
_NO_END: dict[str, Any] = {"exit_code": None, "message": "", "digest": None, "wall": None}


def summarise(data: RunData) -> dict[str, Any]:
    """The summary of a run. Units: as the keys say; times are virtual except under "wall"."""
    run = _NO_END | data.run
    iterations = find_iterations(data)
    breakdown = break_down(data, iterations)
    durations = iterations.compared_ns
    sure = certainty(data, steady_window(data, iterations), breakdown)
    median_ns = int(np.median(durations)) if iterations.count else None
    unsupported = unsupported_calls(data)
    return {
        "schema": SCHEMA,
        "ranks": run["ranks"],
        "nodes": run["nodes"],
        "cluster": run["cluster_name"],
        "command": run["command"],
        "exit_code": run["exit_code"],
        "message": run["message"],
        "broke_off": data.broke_off,
        "steady": run.get("steady"),
        "resimulation": run.get("resimulation"),
        "iterations": {
            "count": iterations.compared,
            "median_ns": median_ns,
            "p95_ns": int(np.percentile(durations, 95)) if iterations.count else None,
            "per_iteration_ns": [int(value) for value in durations],
            "warmup_ns": iterations.warmup_ns,
            "detected_by": iterations.detected_by,
            **describe(data, iterations),
        },
        "breakdown_ns": {
            "compute": breakdown.compute_ns if breakdown else None,
            "communication": breakdown.communication_ns if breakdown else None,
            "exposed_communication": breakdown.exposed_communication_ns if breakdown else None,
            "waiting_for_ranks": breakdown.waiting_for_ranks_ns if breakdown else None,
            "host": breakdown.host_ns if breakdown else None,
            "idle": breakdown.idle_ns if breakdown else None,
        },
        "critical_path": _critical_path(data, iterations),
        "memory": _memory(data),
        "trust": {
            "gpu_time_share": _gpu_time_share(data),
            "interval": sure.to_dict(median_ns) if sure and median_ns is not None else None,
            "calls": _calls(data, unsupported),
            "unsupported": unsupported,
            "expert_load": _expert_load(data),
            "synthetic_reads": sum(read["count"] for read in data.synthetic_reads),
            "synthetic_read_sites": data.synthetic_reads,
            "unknown_reads": unknown_reads(data),
            "nccl_not_modelled": not_modelled(data.settings["nccl_environment"]),
        },
        "virtual_time_ns": int(data.spans["end_ns"].max()) if len(data.spans) else 0,
        "host_time": run["host_time"],
        "host_gaps": _host_gaps(data),
        "host_tensors": _host_tensors(data),
        "isolation": run["isolation"],
        "digest": run["digest"],
        "wall": run["wall"]
        and run["wall"] | {"per_iteration_s": _wall_per_iteration(run["wall"], iterations.count)},
        "host_memory": _host_memory(run),
        "versions": run["versions"],
    }


def _critical_path(data: RunData, iterations: Iterations) -> dict[str, Any] | None:
    """Of the last iteration. None if there is none after the first, or the run broke off."""
    if not iterations.count or data.broke_off:
        return None
    steps = critical_path(data, last_iteration(data, iterations))
    times_ns = times_by_cause(steps)
    return {
        "length_ns": sum(times_ns.values()),
        "by_cause_ns": times_ns,
        "ranks": sorted({step.rank for step in steps}),
    }


def _memory(data: RunData) -> dict[str, Any]:
    per_rank = data.memory["per_rank"]
    worst: dict[str, Any] = max(per_rank, key=itemgetter("device_peak_bytes"), default={})
    failures = [
        {"rank": rank, **oom} for rank, memory in enumerate(per_rank) for oom in memory["oom"]
    ]
    return {
        # Of the rank whose peak is highest; files of earlier versions have one for all.
        "capacity_bytes": worst.get("capacity_bytes", data.memory["capacity_bytes"]),
        "peak_reserved_bytes": [memory["reserved_peak_bytes"] for memory in per_rank],
        "peak_allocated_bytes": [memory["allocated_peak_bytes"] for memory in per_rank],
        "peak_device_bytes": [memory["device_peak_bytes"] for memory in per_rank],
        "fits": None if data.broke_off else not failures,
        "out_of_memory": failures,
    }


def _host_memory(run: dict[str, Any]) -> dict[str, Any] | None:
    """What the run took of the machine; None if it broke off, was resimulated, or was too short for
    a rank to be weighed.
    """
    weighed = run.get("host_memory") or {"pss_bytes": {}}
    per_rank = [int(pss) for pss in weighed["pss_bytes"].values()]
    if not per_rank:
        return None
    return {
        "median_rank_pss_bytes": int(np.median(per_rank)),
        "max_rank_pss_bytes": max(per_rank),
        "ranks_weighed": len(per_rank),
        "total_pss_bytes": weighed["total_bytes"],
    }


def _host_gaps(data: RunData) -> dict[str, Any] | None:
    """Where recorded host time came from; None for the other models, and if the run broke off."""
    if data.run["host_time"] != "recorded" or data.broke_off:
        return None
    replayed = data.host_gaps["replayed"]
    whole_ns = sum(part["charged_ns"] for part in replayed.values())
    return {
        source: {
            "calls": part["calls"],
            "share": part["charged_ns"] / whole_ns if whole_ns else 0.0,
        }
        for source, part in replayed.items()
    }


def _host_tensors(data: RunData) -> dict[str, Any] | None:
    """What was left out by Python line, most bytes first. None: the file is older than that."""
    if "host_tensors" not in data.run:
        return None
    skipped = data.host_tensors["skipped"]
    by_rank: Counter[int] = Counter()
    for entry in skipped:
        by_rank[entry["rank"]] += entry["bytes"]
    return {
        "mode": data.run["host_tensors"],
        "operations": sum(entry["operations"] for entry in skipped),
        "bytes": by_rank.total(),
        "most_of_a_rank_bytes": max(by_rank.values(), default=0),
        "sites": _by_site(skipped, "operations"),
        "used_bytes": sum(entry["bytes"] for entry in data.host_tensors["used"]),
        "used_sites": _by_site(data.host_tensors["used"], "tensors"),
    }


def _by_site(entries: list[dict[str, Any]], counted: str) -> list[dict[str, Any]]:
    """Entries of all ranks added up, most bytes first."""
    totals: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in entries:
        key = (entry.get("what", ""), entry["site"])
        names = {name: entry[name] for name in ("what", "site") if name in entry}
        total = totals.setdefault(key, names | {counted: 0, "bytes": 0})
        total[counted] += entry[counted]
        total["bytes"] += entry["bytes"]
    return sorted(totals.values(), key=lambda total: (-total["bytes"], total["site"]))


def _expert_load(data: RunData) -> dict[str, Any] | None:
    """What was made up of routings; None: the file is older than that."""
    if "expert_load" not in data.run:
        return None
    return {
        "name": data.run["expert_load"]["name"],
        "routings": sum(one["calls"] for one in data.routing if one["follows"]),
        "experts": sorted({one["experts"] for one in data.routing if one["follows"]}),
        "others": sum(one["calls"] for one in data.routing if not one["follows"]),
    }


def _gpu_time_share(data: RunData) -> dict[str, float]:
    """Share of the devices' busy time by tier. Copies, fills and communication are modelled."""
    spans = data.spans.compress(data.spans["kind"] != HOST_WAIT_SPAN)
    lasted_ns = spans["end_ns"] - spans["start_ns"]
    is_kernel = spans["kind"] == KERNEL_SPAN
    by_timing = np.bincount(
        spans["id"][is_kernel], weights=lasted_ns[is_kernel], minlength=len(data.timings)
    )
    totals = {tier.value: 0.0 for tier in Tier}
    for timing, spent_ns in zip(data.timings, by_timing, strict=True):
        totals[timing["tier"]] += spent_ns
    totals[Tier.MODELLED.value] += float(lasted_ns[~is_kernel].sum())
    whole_ns = sum(totals.values())
    return {
        tier: float(spent_ns / whole_ns) if whole_ns else 0.0 for tier, spent_ns in totals.items()
    }


def _calls(data: RunData, unsupported: dict[str, Any]) -> dict[str, int]:
    """Of the ranks that told: those that were stopped did not."""
    totals = {"modelled": 0, "ignored": 0, "passthrough": 0}
    for library in data.calls.values():
        for support in totals:
            totals[support] += sum(library[support].values())
    answered = unsupported["skipped"] + unsupported["refused"]
    stops = int(data.run.get("exit_code") == 3)
    return totals | {"unsupported": answered + stops, "ranks": len(data.calls_of)}


def _wall_per_iteration(wall: dict[str, float], count: int) -> float | None:
    """Wall time per iteration after start-up, the warm-up iteration counted as one."""
    return (wall["total_s"] - wall["startup_s"]) / (count + 1) if count else None
