"""The iterations: how long they take, what one is, what was set apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.markup import escape

from phantora_py.report.findings import Findings
from phantora_py.report.iteration_contents import DISAGREEMENT, IterationContents, describe
from phantora_py.report.page.overview import iteration_parts
from phantora_py.report.page.part import PageFindings, PagePart
from phantora_py.report.sections import breakdown, throughput
from phantora_py.text.units import duration_text, percent_text

_FOUND_BY = {
    "marker": "from mark to mark of phantora_py.mark_iteration()",
    "profiler": "from step to step of torch.profiler",
    "scheduler": "from step to step of a learning-rate scheduler",
    "launches": "what repeats in the launches",
}
_NAMED = {
    "clock": "from reading to reading of the clock at",
    "nvtx": "NVTX range",
    "call": "call of",
}


# Below it the iterations found may not be what the user means (assumed).
_LEAST_SHARE = 0.25
NO_TIME = (
    "between two of them nothing was done on a GPU; are model and data on it (.cuda(), "
    ".to(device))?"
)


class IterationSummary(IterationContents):
    """Iterations. The first is warm-up and stands apart. One ends when its last rank's device has
    finished what was issued before the boundary.
    """

    count: int
    """Of those after the first that do equal work, as in the figures that follow."""
    median_ns: int | None
    """Null without such an iteration."""
    p95_ns: int | None
    """Likewise."""
    per_iteration_ns: list[int]
    warmup_ns: int | None
    """When the first one ended."""
    detected_by: str
    """`marker`, `optimizer`, `profiler`, `clock`, `scheduler`, `nvtx`, `backward`, `call`,
    `launches` or `none` (docs/decisions/iterations.md)."""


def make(found: Findings) -> IterationSummary:
    """The entry of the summary."""
    iterations = found.iterations
    durations = iterations.compared_ns
    return {
        "count": iterations.compared,
        "median_ns": found.median_ns,
        "p95_ns": int(np.percentile(durations, 95)) if iterations.count else None,
        "per_iteration_ns": [int(value) for value in durations],
        "warmup_ns": iterations.warmup_ns,
        "detected_by": iterations.detected_by,
        **describe(
            found.data,
            iterations,
            found.breakdown.communication_by_iteration_ns if found.breakdown else (),
        ),
    }


def lines(
    iterations: IterationSummary, virtual_time_ns: int, communication_ns: int | None
) -> list[str]:
    """On a terminal. `virtual_time_ns`: of the whole run; `communication_ns`: of the mean
    iteration.
    """
    median_ns, p95_ns, warmup_ns = (
        iterations["median_ns"],
        iterations["p95_ns"],
        iterations["warmup_ns"],
    )
    if median_ns is None or p95_ns is None or warmup_ns is None:
        whole = duration_text(virtual_time_ns)
        return [
            f"virtual time [bold]{whole}[/]; no iteration after the first was found: nothing that "
            "the program does repeats three times (--iteration and phantora_py.mark_iteration() "
            "tell what one is)"
        ]
    said = []
    if not median_ns:
        said.append(f"[red]iterations take no virtual time[/]   {NO_TIME}")
    said.append(
        f"virtual iteration [bold]{duration_text(median_ns)}[/] "
        f"(median of {iterations['count']}, p95 {duration_text(p95_ns)}; found by "
        f"{iterations['detected_by']}; first one apart, ended at "
        f"{duration_text(warmup_ns)})"
    )
    said.append(f"  each is {escape(meaning(iterations))}")
    if apart := apart_text(iterations, communication_ns or 0):
        said.append(f"  {apart}")
    said.extend(f"  [red]{escape(warning)}[/]" for warning in warnings(iterations))
    return said


def warnings(iterations: IterationSummary) -> list[str]:
    """What keeps the figure from being the iteration of the whole program."""
    tellers = clock_warning, spread_warning, share_warning, steps_warning, timed_warning
    found = (tell(iterations) for tell in tellers)
    return [one for one in found if one is not None]


def meaning(iterations: IterationSummary) -> str:
    """What an iteration is: "2 optimizer steps, 16 micro-batches"."""
    by, rule = iterations["detected_by"], iterations["rule"]
    found = _FOUND_BY.get(by, "")
    if by in _NAMED and rule:
        found = f"{_NAMED[by]} {rule['name']}"
    clock = iterations["script_clock"]
    reads = clock["reads_per_iteration"] if clock else 1
    read = f"{reads} readings of a clock" if reads > 1 else ""
    return ", ".join(part for part in (iterations["holds"], found, read) if part) or by


def apart_text(iterations: IterationSummary, usual_ns: int) -> str:
    """Iterations with other work; empty if there are none. `usual_ns`: communication of the others,
    in the mean.
    """
    apart = iterations["apart"]
    if not apart:
        return ""
    shortest, longest = (
        duration_text(pick(one["duration_ns"] for one in apart)) for pick in (min, max)
    )
    lasted = shortest if shortest == longest else f"{shortest} to {longest}"
    others = "1 iteration does" if len(apart) == 1 else f"{len(apart)} iterations do"
    kinds = "evaluation, set-up, part of a batch"
    communication = _communication(iterations, usual_ns)
    text = f"{others} other work ({kinds}), {lasted}{communication}; not in the figures below"
    mean_ns = np.mean([*iterations["per_iteration_ns"], *(one["duration_ns"] for one in apart)])
    median_ns = iterations["median_ns"]
    if median_ns and abs(mean_ns / median_ns - 1) > DISAGREEMENT:
        text += f": with them the mean is {duration_text(int(mean_ns))}"
    return text


def _communication(iterations: IterationSummary, usual_ns: int) -> str:
    """What steps that synchronise replicas now and then have beside the others."""
    apart = iterations["apart"]
    duration_ns = max(1, sum(one["duration_ns"] for one in apart))
    share = sum(one["communication_ns"] for one in apart) / duration_ns
    usual = usual_ns / max(1.0, float(np.mean(iterations["per_iteration_ns"])))
    return f", {percent_text(share)} of it communication" if share > usual + DISAGREEMENT else ""


def clock_warning(iterations: IterationSummary) -> str | None:
    """That the program's own clock says otherwise."""
    clock = iterations["script_clock"]
    if clock is None or abs(clock["difference"]) <= DISAGREEMENT:
        return None
    from_ours = abs(1 / (1 + clock["difference"]) - 1)
    return (
        f"the program's own clock, read at {clock['site']}, makes an iteration "
        f"{duration_text(clock['iteration_ns'])}: {percent_text(from_ours)} "
        f"{'less' if clock['difference'] > 0 else 'more'}; --iteration chooses what one is"
    )


def spread_warning(iterations: IterationSummary) -> str | None:
    """That iterations of equally many launches last differently, as of sequences of any length."""
    lasted_ns, median_ns = iterations["per_iteration_ns"], iterations["median_ns"]
    if not median_ns or abs(np.mean(lasted_ns) / median_ns - 1) <= DISAGREEMENT:
        return None
    shortest, longest, mean = (duration_text(int(pick(lasted_ns))) for pick in (min, max, np.mean))
    return f"iterations last {shortest} to {longest}, in the mean {mean}"


def share_warning(iterations: IterationSummary) -> str | None:
    """That the program does other things most of the time."""
    if iterations["median_ns"] is None or iterations["held_share"] >= _LEAST_SHARE:
        return None
    return (
        f"these iterations are {percent_text(iterations['held_share'])} of what the GPUs did in "
        "this run; --iteration chooses what one is"
    )


def steps_warning(iterations: IterationSummary) -> str | None:
    """That the program also trains in another way, before or after these iterations."""
    outside = iterations["steps_outside"]
    if not outside:
        return None
    parts = [f"{count:,} of {name}" for name, count in outside.items()]
    return (
        f"optimizer steps outside of these iterations, in no figure: {', '.join(parts)}; "
        "--iteration chooses what one is"
    )


def timed_warning(iterations: IterationSummary) -> str | None:
    """That the program times other work than these iterations."""
    timed = iterations["timed_outside"]
    if not timed:
        return None
    parts = [f"{duration_text(lasts_ns)} at {site}" for site, lasts_ns in timed.items()]
    return (
        "the program's own clock is also read around equal work outside of these iterations, in no "
        f"figure: {', '.join(parts)}"
    )


def _views(found: PageFindings) -> dict[str, Any]:
    iterations, times = make(found), breakdown.make(found)
    return {
        "parts": iteration_parts(times),
        "iteration_meaning": meaning(iterations),
        "iteration_apart": apart_text(iterations, times["communication"] or 0),
        "iteration_warnings": warnings(iterations),
        "longest_ns": max(iterations["per_iteration_ns"], default=0),
        "no_time": NO_TIME,
        "throughput_tiles": throughput.tiles(throughput.make(found), found.data.ranks),
    }


PAGE = PagePart("iteration", "Iteration", _views)
