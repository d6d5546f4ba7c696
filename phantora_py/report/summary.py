"""The summary of a run: the object that `--json` prints, and the list of a report's sections.

The shape is public (docs/json.md): keys may be added; the schema's number changes with a meaning.
A section is a module of `sections`; here are its key in the JSON, and its row for the terminal and
the page. On the page it has a template, too (`page/assets/NAME.html`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypedDict

from phantora_py.data import RunData
from phantora_py.report.certainty import IterationInterval
from phantora_py.report.findings import Findings
from phantora_py.report.page.part import PagePart
from phantora_py.report.sections import (
    breakdown,
    by_machine,
    calls,
    caveats,
    communication,
    expert_load,
    facts,
    folding,
    gpu_time,
    headline,
    host_gaps,
    host_tensors,
    host_work,
    interval,
    isolation,
    iteration,
    kernels,
    links,
    memory,
    module_memory,
    modules,
    nccl,
    path,
    resimulation,
    sensitivity,
    shared_gpus,
    throughput,
    timeline,
    trade,
    trust,
    unknown_reads,
    unsimulated,
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
    unsimulated: list[unsimulated.UnsimulatedProcesses]
    """Processes that are no ranks and used a GPU (docs/running.md)."""
    shared_gpus: list[shared_gpus.SharedGpu]
    by_machine: list[by_machine.ByMachine]
    """What depended on the machine, so that another run may differ."""
    caveats: list[caveats.Caveat]
    """What else makes the report less sure, as ranks have found."""
    expert_load: expert_load.ExpertLoad | None
    folding: folding.Folding | None
    """Which ranks ran for others (docs/folding.md); null: all ran."""
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
    throughput: throughput.RunThroughput | None
    modules: modules.ModuleTimes | None
    """Null without `--modules`."""
    critical_path: path.PathSummary | None
    trade: trade.Trade | None
    """Null: neither a price, nor a power or an amount was given."""
    sensitivity: sensitivity.Sensitivity | None
    """Null: `--sensitivity` was not given."""
    memory: memory.MemorySummary
    module_memory: module_memory.ModuleMemory | None
    """Null without `--modules`."""
    trust: Trust
    virtual_time_ns: int
    """When the last work ended."""
    host_time: str
    """The model of host time."""
    host_gaps: host_gaps.HostGaps | None
    host_work: host_work.HostWork | None
    host_tensors: host_tensors.HostTensors | None
    isolation: isolation.Isolation
    digest: str | None
    """Equal runs have equal ones. Null if the run broke off."""
    wall: wall.WallTime | None
    host_memory: wall.HostMemory | None
    versions: dict[str, str]


def summarise(data: RunData, found: Findings | None = None) -> Summary:
    """The summary of a run. `found`: what is known of it already."""
    run, found = data.run, found or Findings(data)
    return {
        "schema": SCHEMA,
        **headline.make(found),
        "resimulation": resimulation.make(found),
        "iterations": iteration.make(found),
        "breakdown_ns": breakdown.make(found),
        "throughput": throughput.make(found),
        "modules": modules.make(found),
        "critical_path": path.make(found),
        "trade": trade.make(found),
        "sensitivity": sensitivity.make(found),
        "memory": memory.make(found),
        "module_memory": module_memory.make(found),
        "trust": {
            "gpu_time_share": gpu_time.make(found),
            "interval": interval.make(found),
            "calls": calls.make(found),
            "unsupported": unsupported.make(found),
            "unsimulated": unsimulated.make(found),
            "shared_gpus": shared_gpus.make(found),
            "by_machine": by_machine.make(found),
            "caveats": caveats.make(found),
            "expert_load": expert_load.make(found),
            "folding": folding.make(found),
            "synthetic_reads": unknown_reads.make_count(found),
            "synthetic_read_sites": unknown_reads.make_sites(found),
            "unknown_reads": unknown_reads.make(found),
            "nccl_not_modelled": nccl.make(found),
        },
        "virtual_time_ns": int(data.spans["end_ns"].max()) if len(data.spans) else 0,
        "host_time": run["host_time"],
        "host_gaps": host_gaps.make(found),
        "host_work": host_work.make(found),
        "host_tensors": host_tensors.make(found),
        "isolation": isolation.make(found),
        "digest": run.get("digest"),
        "wall": wall.make_wall(found),
        "host_memory": wall.make_memory(found),
        "versions": run["versions"],
    }


class Section(NamedTuple):
    """A section of the report."""

    lines: Callable[[Summary], list[str]] | None = None
    """On a terminal, as rich markup; None: not there."""
    page: PagePart | None = None
    """None: not there."""


SECTIONS = (
    Section(
        lambda run: headline.lines(
            run, run["host_time"], folding.processes(run["trust"]["folding"])
        )
    ),
    Section(lambda run: resimulation.lines(run["resimulation"])),
    Section(headline.cut_lines),
    Section(lambda run: unsupported.headline(run["trust"]["unsupported"])),
    Section(lambda run: unsimulated.headline(run["trust"]["unsimulated"])),
    Section(
        lambda run: iteration.lines(
            run["iterations"], run["virtual_time_ns"], run["breakdown_ns"]["communication"]
        ),
        iteration.PAGE,
    ),
    Section(lambda run: breakdown.lines(run["breakdown_ns"])),
    Section(lambda run: throughput.lines(run["throughput"], run["ranks"])),
    Section(lambda run: modules.lines(run["modules"]), modules.PAGE),
    Section(page=timeline.PAGE),
    Section(lambda run: path.lines(run["critical_path"]), path.PAGE),
    Section(lambda run: host_work.lines(run["host_work"]), host_work.PAGE),
    Section(lambda run: memory.lines(run["memory"], run)),
    Section(lambda run: module_memory.lines(run["module_memory"])),
    Section(lambda run: trade.lines(run["trade"]), trade.PAGE),
    Section(lambda run: sensitivity.lines(run["sensitivity"]), sensitivity.PAGE),
    Section(lambda _: trust.lines(), trust.PAGE),
    Section(lambda run: gpu_time.lines(run["trust"]["gpu_time_share"])),
    Section(lambda run: interval.lines(run["trust"]["interval"])),
    Section(lambda run: calls.lines(run["trust"]["calls"], run)),
    Section(lambda run: unsupported.lines(run["trust"]["unsupported"])),
    Section(lambda run: unsimulated.lines(run["trust"]["unsimulated"])),
    Section(lambda run: shared_gpus.lines(run["trust"]["shared_gpus"])),
    Section(lambda run: by_machine.lines(run["trust"]["by_machine"])),
    Section(lambda run: caveats.lines(run["trust"]["caveats"])),
    Section(lambda run: host_gaps.lines(run["host_gaps"])),
    Section(lambda run: folding.lines(run["trust"]["folding"])),
    Section(lambda run: expert_load.lines(run["trust"]["expert_load"])),
    Section(
        lambda run: unknown_reads.lines(
            run["trust"]["synthetic_reads"], run["trust"]["unknown_reads"]
        )
    ),
    Section(lambda run: host_tensors.lines(run["host_tensors"])),
    Section(lambda run: nccl.lines(run["trust"]["nccl_not_modelled"])),
    Section(lambda run: isolation.lines(run["isolation"])),
    Section(lambda run: wall.lines(run["wall"], run["host_memory"])),
    Section(page=kernels.PAGE),
    Section(page=communication.PAGE),
    Section(page=links.PAGE),
    # On a terminal it stands above.
    Section(page=memory.PAGE),
    Section(page=module_memory.PAGE),
    Section(page=facts.PAGE),
)
"""In the order of the terminal and of the page. A row that is in the JSON has a key above."""


def summary_lines(summary: Summary) -> list[str]:
    """The sections on a terminal, as lines of rich markup."""
    return [line for one in SECTIONS if one.lines is not None for line in one.lines(summary)]


def page_parts() -> list[PagePart]:
    """The sections of the page."""
    return [one.page for one in SECTIONS if one.page is not None]
