"""What may differ in another run of the same program, because the machine had a part in it."""

from __future__ import annotations

from typing import TypedDict

from phantora_py.report.findings import Findings


class ByMachine(TypedDict):
    """What of one rank depended on the machine."""

    rank: int
    guesses: int
    """How often it was taken to wait for others, because it had hardly used the processor."""
    slept_s: float
    """Virtual seconds by which its sleeps were longer than they took, beside a process of the
    program that is no rank, which it may have polled for."""
    ran_out: int
    """How many of its sleeps and time-outs ended because a child process or a thread of it had
    worked for a minute of this machine's time."""


def make(found: Findings) -> list[ByMachine]:
    """The entry of the summary; empty for files of earlier versions. A GPU that nobody used has
    done nothing that could have come at another time.
    """
    return [
        {
            "rank": one["rank"],
            "guesses": one["guesses"],
            "slept_s": one["slept_s"],
            "ran_out": one.get("ran_out", 0),
        }
        for one in found.data.run.get("by_machine", [])
        if one["rank"] in found.started
    ]


def marks(rows: list[ByMachine]) -> list[str]:
    """In sentences without an end; none for a run that its program alone decided."""
    said = []
    guesses = sum(one["guesses"] for one in rows)
    if guesses:
        said.append(
            f"{guesses:,} time{'s' if guesses > 1 else ''} a rank was taken to wait for others by "
            "a guess, since a thread stayed awake: what it did next may come at another time in "
            "another run"
        )
    said += [
        f"rank {one['rank']} slept {one['slept_s']:,.0f} s longer than in reality, beside a "
        "process that is no rank: if it polled for that one, its sleeps are too many"
        for one in rows
        if one["slept_s"]
    ]
    said += [
        f"rank {one['rank']} waited {one['ran_out']:,} time{'s' if one['ran_out'] > 1 else ''} "
        "until its time-out, since a process or a thread of its own worked for longer than a "
        "minute: on a faster machine what it waited for may come first, in no virtual time"
        for one in rows
        if one["ran_out"]
    ]
    return said


def lines(rows: list[ByMachine]) -> list[str]:
    """On a terminal, among what was not modelled."""
    return [f"  [red]by this machine:[/] {said}" for said in marks(rows)]
