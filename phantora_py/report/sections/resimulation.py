"""What was simulated again, and what that rests on."""

from __future__ import annotations

from typing import TypedDict

from rich.markup import escape

from phantora_py.report.findings import Findings
from phantora_py.report.sections.words import counted


class Supposed(TypedDict):
    """What every what-if says."""

    environment: dict[str, str]
    host_time: str | None
    """`off`, or null: as recorded."""
    kernels: dict[str, float]
    """Factors by pattern."""


class WhatIf(Supposed, total=False):
    """What was changed on purpose. Files of earlier versions lack what follows."""

    parts: dict[str, float]
    """Factors on `memory`, `nvlink`, `nic`, `latency`, `host`."""


class Recording(TypedDict):
    """What a resimulation was made of (docs/decisions/resimulation.md)."""

    of: str
    """The recorded file."""
    cluster_name: str
    """The cluster of the recording."""
    same_settings: bool
    same_history: bool | None
    """Null where the settings differ or the recording broke off."""
    polls: int
    """Answers "done" that became waits."""
    outside_waits: int
    """Waits for something outside the GPU, which last as long as they did."""


class Resimulation(Recording, total=False):
    """Files of earlier versions lack what follows."""

    what_if: WhatIf
    time_reads: int
    """Times of GPU work that the program saw: they stay as recorded."""
    not_ready: int
    """Answers "not ready", which stay as recorded."""


def make(found: Findings) -> Resimulation | None:
    """None: it was run."""
    made: Resimulation | None = found.data.run.get("resimulation")
    return made


def lines(made: Resimulation | None) -> list[str]:
    """On a terminal."""
    if made is None:
        return []
    said = [f"resimulated from {escape(made['of'])}, recorded on {escape(made['cluster_name'])}"]
    if made["same_settings"]:
        said[0] += {
            True: "; the history is the same",
            False: "; the history is [red]not the same[/]",
            None: ", as far as the recording goes: it broke off",
        }[made["same_history"]]
        return said
    unchanged: WhatIf = {"environment": {}, "host_time": None, "kernels": {}}
    what_if = made.get("what_if", unchanged)
    changed = [f"{name}={value}" for name, value in what_if["environment"].items()]
    changed += ["host time off"] if what_if["host_time"] else []
    changed += [f"{pattern} x {factor:g}" for pattern, factor in what_if["kernels"].items()]
    changed += [f"{part} x {factor:g}" for part, factor in what_if.get("parts", {}).items()]
    if changed:
        said.append(f"  what if: {escape('   '.join(changed))}")
    host = "" if what_if["host_time"] else "host time between calls, "
    said.append(
        f"  as recorded: what each rank did, {host}kernels, memory; "
        f"{counted(made['polls'], 'poll')} became waits, "
        f"{counted(made['outside_waits'], 'wait')} outside last as long as they did"
    )
    reads, refusals = made.get("time_reads", 0), made.get("not_ready", 0)
    if reads or refusals:
        said.append(
            f"  it saw times that would be others now: {counted(reads, 'timing')} of GPU work, "
            f"{counted(refusals, 'poll')} too early; where these decide what it does, run it again"
        )
    return said
