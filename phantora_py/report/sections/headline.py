"""What was run, on what, and how it ended."""

from __future__ import annotations

import shlex
from typing import TypedDict

from rich.markup import escape

from phantora_py.report.findings import Findings
from phantora_py.report.sections.words import counted


class Settled(TypedDict):
    """--until-steady ended the run."""

    iterations: int
    """After which the iteration time had settled, the first one counted."""


class Steady(Settled, total=False):
    """Files of earlier versions lack what follows."""

    time_ns: int
    """When the last of them ended."""
    median_ns: int
    """Of the last ones, which were alike."""


class Run(TypedDict):
    """What was run, and how it ended."""

    ranks: int
    nodes: int
    cluster: str
    command: list[str]
    exit_code: int | None
    """Null if the run broke off."""
    message: str
    """What ended the run; empty if it finished."""
    broke_off: bool
    """Phantora was killed: the file reaches as far as it had been written."""
    restarts: list[str]
    """How each attempt before this one ended, after which the launcher started the ranks again."""
    steady: Steady | None
    own_ranks: bool
    """The program was started once, on a node of so many GPUs (`--gpus`), and started its ranks."""


def make(found: Findings) -> Run:
    """The entries of the summary. A run that broke off could not say how it ended."""
    data, run = found.data, found.data.run
    return {
        "ranks": run["ranks"],
        "nodes": run["nodes"],
        "cluster": run["cluster_name"],
        "command": run["command"],
        "exit_code": run.get("exit_code"),
        "message": run.get("message", ""),
        "broke_off": data.broke_off,
        "restarts": run.get("restarts", []),
        "steady": run.get("steady"),
        "own_ranks": run.get("own_ranks", False),
    }


def lines(run: Run, host_time: str, processes: int | None = None) -> list[str]:
    """On a terminal. `host_time`: the model. `processes`: as how many the ranks ran, if folded."""
    command = escape(shlex.join(run["command"]))
    folded = "" if processes is None else f" as {counted(processes, 'process')}"
    noun = "GPU" if run["own_ranks"] else "rank"
    ranks = f"{counted(run['ranks'], noun)}{folded} on {counted(run['nodes'], 'node')}"
    ranks = f"{ranks} of {escape(run['cluster'])}"
    said = [f"[bold]{ranks}[/]   host time: {host_time}   {command}"]
    if run["exit_code"]:
        said.append(f"[red]exit code {run['exit_code']}[/]   {escape(run['message'])}")
    return said


def cut_lines(run: Run) -> list[str]:
    """That the program did not come to its end, or not at once."""
    said = []
    if run["restarts"]:
        said.append(
            f"restarted {counted(len(run['restarts']), 'time')}   the figures are of the last "
            f"attempt, from its start on; before: {escape(run['restarts'][-1])}"
        )
    if run["broke_off"]:
        said.append("[red]phantora was killed[/]   what follows is what it had written by then")
    if (steady := run["steady"]) is not None:
        said.append(
            f"stopped when steady, after iteration {steady['iterations']}: --until-steady; what "
            "the program does later is not in these figures"
        )
    return said
