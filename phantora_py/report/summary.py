"""The summary of a run: the object that `--json` prints, and its sections on a terminal.

The shape is public (docs/json.md): keys may be added; the schema's number changes with a meaning.
A section is a module of `sections`; here is a row for its key, and one for its lines.
"""

from __future__ import annotations

from typing import TypedDict

from phantora_py.data import RunData
from phantora_py.report.certainty import IterationInterval
from phantora_py.report.findings import Findings
from phantora_py.report.sections import (
    breakdown,
    calls,
    expert_load,
    gpu_time,
    headline,
    host_gaps,
    host_tensors,
    interval,
    isolation,
    iteration,
    memory,
    nccl,
    path,
    resimulation,
    unknown_reads,
    unsupported,
    wall,
)

SCHEMA = 2


class Trust(TypedDict):
    """How far the result may be trusted."""

    gpu_time_share: gpu_time.TierShares
    interval: IterationInterval | None
    calls: calls.CallCounts
    unsupported: unsupported.UnsupportedCalls
    expert_load: expert_load.ExpertLoad | None
    synthetic_reads: int
    """Values that the host read and no rule had produced."""
    synthetic_read_sites: list[unknown_reads.ReadSite]
    unknown_reads: list[unknown_reads.UnknownRead]
    """The same by Python line, most reads first."""
    nccl_not_modelled: list[str]
    """Variables of NCCL that could change times, as NAME=VALUE (docs/network.md)."""


class Summary(headline.Run):
    """One run. Units: as the keys say; times are virtual except under `wall`."""

    schema: int
    """Changes when a key means something else."""
    resimulation: resimulation.Resimulation | None
    iterations: iteration.IterationSummary
    breakdown_ns: breakdown.BreakdownTimes
    critical_path: path.PathSummary | None
    memory: memory.MemorySummary
    trust: Trust
    virtual_time_ns: int
    """When the last work ended."""
    host_time: str
    """The model of host time."""
    host_gaps: host_gaps.HostGaps | None
    host_tensors: host_tensors.HostTensors | None
    isolation: isolation.Isolation
    digest: str | None
    """Equal runs have equal ones. Null if the run broke off."""
    wall: wall.WallTime | None
    host_memory: wall.HostMemory | None
    versions: dict[str, str]


def summarise(data: RunData) -> Summary:
    """The summary of a run."""
    run, found = data.run, Findings(data)
    return {
        "schema": SCHEMA,
        **headline.make(found),
        "resimulation": resimulation.make(found),
        "iterations": iteration.make(found),
        "breakdown_ns": breakdown.make(found),
        "critical_path": path.make(found),
        "memory": memory.make(found),
        "trust": {
            "gpu_time_share": gpu_time.make(found),
            "interval": interval.make(found),
            "calls": calls.make(found),
            "unsupported": unsupported.make(found),
            "expert_load": expert_load.make(found),
            "synthetic_reads": unknown_reads.make_count(found),
            "synthetic_read_sites": unknown_reads.make_sites(found),
            "unknown_reads": unknown_reads.make(found),
            "nccl_not_modelled": nccl.make(found),
        },
        "virtual_time_ns": int(data.spans["end_ns"].max()) if len(data.spans) else 0,
        "host_time": run["host_time"],
        "host_gaps": host_gaps.make(found),
        "host_tensors": host_tensors.make(found),
        "isolation": isolation.make(found),
        "digest": run.get("digest"),
        "wall": wall.make_wall(found),
        "host_memory": wall.make_memory(found),
        "versions": run["versions"],
    }


def summary_lines(summary: Summary) -> list[str]:
    """The sections on a terminal, as lines of rich markup."""
    trust = summary["trust"]
    return [
        *headline.lines(summary, summary["host_time"]),
        *resimulation.lines(summary["resimulation"]),
        *headline.cut_lines(summary),
        *unsupported.headline(trust["unsupported"]),
        *iteration.lines(summary["iterations"], summary["virtual_time_ns"]),
        *breakdown.lines(summary["breakdown_ns"]),
        *path.lines(summary["critical_path"]),
        *memory.lines(summary["memory"]),
        "[bold]Trust[/]",
        *gpu_time.lines(trust["gpu_time_share"]),
        *interval.lines(trust["interval"]),
        *calls.lines(trust["calls"], summary),
        *unsupported.lines(trust["unsupported"]),
        *host_gaps.lines(summary["host_gaps"]),
        *expert_load.lines(trust["expert_load"]),
        *unknown_reads.lines(trust["synthetic_reads"], trust["unknown_reads"]),
        *host_tensors.lines(summary["host_tensors"]),
        *nccl.lines(trust["nccl_not_modelled"]),
        *isolation.lines(summary["isolation"]),
        *wall.lines(summary["wall"], summary["host_memory"]),
    ]
