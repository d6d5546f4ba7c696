"""Processes that are no ranks and used a GPU: their work is not in the result."""

from __future__ import annotations

from typing import TypedDict

from phantora_py.report.findings import Findings


class UnsimulatedProcesses(TypedDict):
    """Processes that a rank has started and that used a GPU without being a rank."""

    rank: int
    """That has started them."""
    device: int
    """That they used, as they count."""
    processes: int


def make(found: Findings) -> list[UnsimulatedProcesses]:
    """The entry of the summary; empty for files of earlier versions."""
    return [
        {"rank": one["rank"], "device": one["device"], "processes": one["processes"]}
        for one in found.data.run.get("unsimulated", [])
    ]


def mark(unsimulated: list[UnsimulatedProcesses]) -> str:
    """What marks a result that lacks such work; "" for another."""
    if not unsimulated:
        return ""
    count = sum(one["processes"] for one in unsimulated)
    number = "1 process" if count == 1 else f"{count:,} processes"
    ranks = sorted({one["rank"] for one in unsimulated})
    of = f"rank {ranks[0]}" if len(ranks) == 1 else f"{len(ranks)} ranks"
    return (
        f"{number} that {of} started used a GPU, and what was done there took no time "
        "(--gpus N instead of --ranks N makes each a rank)"
    )


def headline(unsimulated: list[UnsimulatedProcesses]) -> list[str]:
    """On a terminal, at the head."""
    marked = mark(unsimulated)
    return [f"[red]not a full model[/]   {marked}"] if marked else []


def lines(unsimulated: list[UnsimulatedProcesses]) -> list[str]:
    """On a terminal, among what was not modelled."""
    marked = mark(unsimulated)
    return [f"  [red]not simulated:[/] {marked}"] if marked else []
