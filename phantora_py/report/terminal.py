"""The summary of a run on a terminal."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from phantora_py.data import RunData
from phantora_py.report.deadlock import print_deadlock
from phantora_py.report.iteration_text import iteration_lines
from phantora_py.report.summary import summarise
from phantora_py.report.unknown_reads import difference_text
from phantora_py.report.unsupported import mark, unsupported_lines
from phantora_py.report.wrapping import wrapped
from phantora_py.text.units import duration_text, percent_text, size_text

MOST_SITES = 5
NO_TIME = (
    "between two of them nothing was done on a GPU; are model and data on it (.cuda(), "
    ".to(device))?"
)
MOST_CLASSES = 3


def print_summary(path: Path, console: Console | None = None, iteration: str | None = None) -> None:
    """Print the summary of the data file at `path`. `iteration`: see `RunData`.

    Raises: UsageError if it cannot be read.
    """
    console = console or Console(highlight=False, soft_wrap=True)
    data = RunData(path, iteration)
    for line in summary_lines(summarise(data)):
        text = Text.from_markup(line)
        for part in wrapped(text, console.width) if console.is_terminal else [text]:
            console.print(part)
    print_deadlock(console, data.run.get("deadlock", []))


def summary_lines(summary: dict[str, Any]) -> list[str]:
    """The summary as lines of rich markup."""
    return [
        *_headline(summary),
        *_breakdown(summary),
        *_critical_path(summary),
        *_memory(summary),
        *_trust(summary),
        *_wall(summary),
    ]


def _headline(summary: dict[str, Any]) -> list[str]:
    command = escape(shlex.join(summary["command"]))
    ranks = f"{_counted(summary['ranks'], 'rank')} on {_counted(summary['nodes'], 'node')}"
    ranks = f"{ranks} of {escape(summary['cluster'])}"
    lines = [f"[bold]{ranks}[/]   host time: {summary['host_time']}   {command}"]
    if summary["exit_code"]:
        lines.append(f"[red]exit code {summary['exit_code']}[/]   {escape(summary['message'])}")
    if summary["resimulation"] is not None:
        lines += _resimulation(summary["resimulation"])
    if summary["broke_off"]:
        lines.append("[red]phantora was killed[/]   what follows is what it had written by then")
    steady = summary["steady"]
    if steady is not None:
        lines.append(
            f"stopped when steady, after iteration {steady['iterations']}: --until-steady; what "
            "the program does later is not in these figures"
        )
    marked = mark(summary["trust"]["unsupported"])
    if marked:
        lines.append(f"[red]not a full model[/]   {marked}")
    iterations = summary["iterations"]
    if not iterations["count"]:
        whole = duration_text(summary["virtual_time_ns"])
        lines.append(
            f"virtual time [bold]{whole}[/]; no iteration after the first was found: nothing that "
            "the program does repeats three times (--iteration and phantora_py.mark_iteration() "
            "tell what one is)"
        )
        return lines
    if not iterations["median_ns"]:
        lines.append(f"[red]iterations take no virtual time[/]   {NO_TIME}")
    lines.append(
        f"virtual iteration [bold]{duration_text(iterations['median_ns'])}[/] "
        f"(median of {iterations['count']}, p95 {duration_text(iterations['p95_ns'])}; found by "
        f"{iterations['detected_by']}; first one apart, ended at "
        f"{duration_text(iterations['warmup_ns'])})"
    )
    return lines + iteration_lines(iterations)


def _resimulation(made: dict[str, Any]) -> list[str]:
    """What was simulated again, and what that rests on."""
    lines = [f"resimulated from {escape(made['of'])}, recorded on {escape(made['cluster_name'])}"]
    if made["same_settings"]:
        lines[0] += {
            True: "; the history is the same",
            False: "; the history is [red]not the same[/]",
            None: ", as far as the recording goes: it broke off",
        }[made["same_history"]]
        return lines
    what_if = made.get("what_if", {"environment": {}, "host_time": None, "kernels": {}})
    changed = [f"{name}={value}" for name, value in what_if["environment"].items()]
    changed += ["host time off"] if what_if["host_time"] else []
    changed += [f"{pattern} x {factor:g}" for pattern, factor in what_if["kernels"].items()]
    if changed:
        lines.append(f"  what if: {escape('   '.join(changed))}")
    host = "" if what_if["host_time"] else "host time between calls, "
    lines.append(
        f"  as recorded: what each rank did, {host}kernels, memory; "
        f"{_counted(made['polls'], 'poll')} became waits, "
        f"{_counted(made['outside_waits'], 'wait')} outside last as long as they did"
    )
    reads, refusals = made.get("time_reads", 0), made.get("not_ready", 0)
    if reads or refusals:
        lines.append(
            f"  it saw times that would be others now: {_counted(reads, 'timing')} of GPU work, "
            f"{_counted(refusals, 'poll')} too early; where these decide what it does, run it again"
        )
    return lines


def _breakdown(summary: dict[str, Any]) -> list[str]:
    parts = summary["breakdown_ns"]
    if parts["compute"] is None:
        return []
    whole_ns = sum(parts.values()) - parts["communication"]  # the exposed part of it is another

    def share(part: str) -> str:
        return percent_text(parts[part] / whole_ns if whole_ns else 0.0)

    return [
        f"  compute {share('compute')}   communication {share('communication')} "
        f"(exposed {share('exposed_communication')})   "
        f"waiting for ranks {share('waiting_for_ranks')}   host {share('host')}   "
        f"idle {share('idle')}"
    ]


def _critical_path(summary: dict[str, Any]) -> list[str]:
    path = summary["critical_path"]
    if path is None or not path["length_ns"]:
        return []
    parts = [
        f"{cause} {percent_text(time_ns / path['length_ns'])}"
        for cause, time_ns in path["by_cause_ns"].items()
        if time_ns
    ]
    return [f"  critical path   {'   '.join(parts)}   (of the last iteration)"]


def _memory(summary: dict[str, Any]) -> list[str]:
    memory = summary["memory"]
    peaks = memory["peak_device_bytes"]
    if not peaks:
        return ["  peak memory is not known, because the run broke off"]
    worst = max(range(len(peaks)), key=peaks.__getitem__)
    capacity = size_text(memory["capacity_bytes"])
    lines = [
        f"  peak memory [bold]{size_text(peaks[worst])}[/] of {capacity} (rank {worst}; PyTorch "
        f"reserved {size_text(memory['peak_reserved_bytes'][worst])}, allocated "
        f"{size_text(memory['peak_allocated_bytes'][worst])})"
    ]
    for failure in memory["out_of_memory"][:MOST_SITES]:
        lines.append(
            f"  [red]rank {failure['rank']} ran out of memory[/]: "
            f"asked {size_text(failure['asked_bytes'])}, free {size_text(failure['free_bytes'])}, "
            f"at {escape(failure['site'])}"
        )
    return lines


def _trust(summary: dict[str, Any]) -> list[str]:
    trust = summary["trust"]
    tiers = "   ".join(
        f"{percent_text(share)} {tier}" for tier, share in trust["gpu_time_share"].items()
    )
    calls = trust["calls"]
    lines = ["[bold]Trust[/]", f"  GPU time   {tiers}"]
    if trust["interval"] is not None:
        lines.append(_interval(trust["interval"]))
    if not summary["broke_off"]:
        lines.append(_calls(calls, summary["ranks"]))
    lines += unsupported_lines(trust["unsupported"], MOST_SITES)
    if summary["host_gaps"] is not None:
        lines.append(_host_gaps(summary["host_gaps"]))
    lines += _expert_load(trust["expert_load"])
    if trust["synthetic_reads"]:
        lines.append(
            f"  values     {trust['synthetic_reads']:,} values read back that no rule produced:"
        )
        lines += [_unknown_read(row) for row in trust["unknown_reads"][:MOST_SITES]]
    lines += _host_tensors(summary["host_tensors"])
    if trust["nccl_not_modelled"]:
        variables = escape("   ".join(trust["nccl_not_modelled"]))
        lines.append(f"  NCCL       not modelled: {variables}")
    isolation = summary["isolation"]
    lines.append(f"  isolation  {isolation['tier']}: {escape(isolation['reason'])}")
    return lines


def _unknown_read(row: dict[str, Any]) -> str:
    differs = difference_text(row)
    more = f"; [yellow]{differs}[/]" if differs else ""
    return f"    {row['count']:,} at {escape(row['site'])}{more}"


def _calls(calls: dict[str, int], ranks: int) -> str:
    unsupported = f"{calls['unsupported']:,} unsupported"
    if not calls["ranks"]:
        return f"  calls      not known: every rank was stopped before it could tell; {unsupported}"
    some = f" (of {calls['ranks']} of {ranks} ranks: those that were stopped have not told)"
    return (
        f"  calls      {calls['modelled']:,} modelled   {calls['ignored']:,} ignored   "
        f"{calls['passthrough']:,} passed through   {unsupported}"
        f"{some if calls['ranks'] < ranks else ''}"
    )


def _interval(interval: dict[str, Any]) -> str:
    """What the iteration time may be, and which classes that comes from."""
    between = f"{duration_text(interval['low_ns'])} to {duration_text(interval['high_ns'])}"
    most = "   ".join(
        f"{escape(one['class'])} -{percent_text(one['shorter'])} +{percent_text(one['longer'])}"
        for one in interval["classes"][:MOST_CLASSES]
    )
    return (
        f"  iteration  {between} with {interval['confidence']:.0%} confidence; most from   {most}"
    )


def _expert_load(load: dict[str, Any] | None) -> list[str]:
    """Routings that were made up, and whether the distribution that was asked for was any use."""
    if load is None or (load["name"] == "uniform" and not load["routings"]):
        return []
    among = " or ".join(map(str, load["experts"]))
    line = (
        f"  experts    load {escape(load['name'])}: {_counted(load['routings'], 'routing')} made up"
    )
    line += f", among {among}" if among else ""
    if load["others"]:
        line += f"; [red]{load['others']:,} among other numbers of experts were even[/]"
    elif not load["routings"]:
        line += " [red](no top-k of unknown values was met)[/]"
    return [line]


def _host_tensors(left: dict[str, Any] | None) -> list[str]:
    """Host tensors that were not filled, and what the program has seen of that."""
    if left is None or not left["operations"]:
        return []
    most = left["sites"][0]
    lines = [
        f"  host       {size_text(left['most_of_a_rank_bytes'])} of tensors per rank not filled "
        f"({_counted(left['operations'], 'operation')}; most {most['what']}, "
        f"at {escape(most['site'])})"
    ]
    if left["used_bytes"]:
        lines.append(
            f"    of all ranks {size_text(left['used_bytes'])} was used after all, as zeros "
            "(--host-tensors real fills them):"
        )
        lines += [
            f"    {size_text(used['bytes'])} that {escape(used['site'])} was to fill"
            for used in left["used_sites"][:MOST_SITES]
        ]
    return lines


def _host_gaps(by_source: dict[str, Any]) -> str:
    labels = {"signature": "recorded", "family": "by kernel", "call": "by call", "fixed": "fixed"}
    shares = "   ".join(
        f"{percent_text(by_source[source]['share'])} {label}" for source, label in labels.items()
    )
    return f"  host time  {shares} ({_counted(by_source['fixed']['calls'], 'call')} not recorded)"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _wall(summary: dict[str, Any]) -> list[str]:
    wall = summary["wall"]
    if wall is None:
        return []
    host_memory = summary["host_memory"]
    memory = ""
    if host_memory is not None:
        memory = (
            f", memory {size_text(host_memory['total_pss_bytes'])} (PSS; a rank "
            f"{size_text(host_memory['median_rank_pss_bytes'])}, at most "
            f"{size_text(host_memory['max_rank_pss_bytes'])})"
        )
    return [
        f"wall {wall['total_s']:.1f} s (start-up {wall['startup_s']:.1f} s), "
        f"{wall['core_seconds']:.1f} core-seconds{memory}"
    ]
