"""What an iteration is, and what was set apart, in lines for a terminal and a page."""

from __future__ import annotations

from typing import Any

from rich.markup import escape

from phantora_py.report.iteration_contents import DISAGREEMENT
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


def iteration_lines(iterations: dict[str, Any]) -> list[str]:
    """Of `iterations` in the summary."""
    lines = [f"  each is {escape(meaning(iterations))}"]
    if apart := apart_text(iterations):
        lines.append(f"  {apart}")
    if (warning := clock_warning(iterations)) is not None:
        lines.append(f"  [red]{escape(warning)}[/]")
    return lines


def meaning(iterations: dict[str, Any]) -> str:
    """What an iteration is: "2 optimizer steps, 16 micro-batches"."""
    by, rule = iterations["detected_by"], iterations["rule"]
    found = _FOUND_BY.get(by, "")
    if by in _NAMED and rule:
        found = f"{_NAMED[by]} {rule['name']}"
    return ", ".join(part for part in (iterations["holds"], found) if part) or by


def apart_text(iterations: dict[str, Any]) -> str:
    """Iterations with other work; empty if there are none."""
    apart = iterations["apart"]
    if not apart:
        return ""
    shortest, longest = (
        duration_text(pick(one["duration_ns"] for one in apart)) for pick in (min, max)
    )
    lasted = shortest if shortest == longest else f"{shortest} to {longest}"
    others = "1 iteration does" if len(apart) == 1 else f"{len(apart)} iterations do"
    return f"{others} other work (evaluation, set-up), {lasted}; not in the figures below"


def clock_warning(iterations: dict[str, Any]) -> str | None:
    """That the program's own clock says otherwise."""
    clock = iterations["script_clock"]
    if clock is None or abs(clock["difference"]) <= DISAGREEMENT:
        return None
    return (
        f"the program's own clock, read at {clock['site']}, makes an iteration "
        f"{duration_text(clock['iteration_ns'])}: {percent_text(abs(clock['difference']))} "
        f"{'less' if clock['difference'] > 0 else 'more'}; --iteration chooses what one is"
    )
