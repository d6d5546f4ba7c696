"""Why the report is to be trusted less, as its ranks have found."""

from __future__ import annotations

from typing import TypedDict

from phantora_py.report.findings import Findings
from phantora_py.report.sections.words import counted


class Caveat(TypedDict):
    """Of one rank."""

    rank: int
    what: str
    """`hooks`: a Python of it did not load phantora's modules; `watchdog`: a watchdog of PyTorch's
    did not look in time; `host_step`: an optimizer stepped parameters in host memory; `threads`:
    several launch side by side; `workers`: a data loader has processes of its own; `no_loader`:
    nothing was loaded in the time that the user said; `tuning`: a process compiled graphs without
    the tuning that was asked for."""
    count: int


# Of what is said of each: before the count's noun, the noun, and what follows from it.
_TEXTS = {
    "hooks": (
        "Python",
        "started with -I, -E or -S: optimizer steps were not told, and values of small tensors not "
        "known, so that iterations may be other ones and the program may have decided otherwise",
    ),
    "watchdog": (
        "wait",
        "for PyTorch's watchdogs ended after 2 s of this machine's processor, before all had "
        "looked: whether DDP's first buckets are given back before others are made may differ in "
        "another run, and so may peak memory",
    ),
    "host_step": (
        "optimizer step",
        "on parameters in host memory took the time of its calls alone: what the processor "
        "computes and reads for it is not in the times (docs/host-time.md)",
    ),
    "threads": (
        "process",
        "with threads that launch side by side, as those of nn.DataParallel: which comes first "
        "depends on this machine, so that times may be others in another run",
    ),
    "workers": (
        "data loader",
        "with worker processes, which take no virtual time: a program that waits for its data "
        "takes longer than said; --data-time says what a batch takes (docs/host-time.md)",
    ),
    "no_loader": (
        "option",
        "of the run had no effect: --data-time, as no loader of torch.utils.data gave a batch, so "
        "that data take no time (docs/host-time.md)",
    ),
    "tuning": (
        "process",
        "with graphs compiled without the tuning that was asked for (max-autotune, coordinate "
        "descent), as no model tells its candidates apart: on hardware kernels may be faster",
    ),
}
_KNOWN = ("workers", "tuning")
"""Nothing that the models should have known: data loaders and tuning are no part of them."""
_OF_CALLS = ("fixed", "counted")
"""Host-time models in which a step takes no more than its calls, though nobody asked for that."""


def make(found: Findings) -> list[Caveat]:
    """The entry of the summary; empty for files of earlier versions."""
    run, told = found.data.run, found.data.caveats
    modelled = {"loaded"}
    if run["host_time"] not in _OF_CALLS:
        modelled.add("host_step")
    if run.get("data_time") is not None:
        modelled.add("workers")
    rows: list[Caveat] = [
        {"rank": one["rank"], "what": one["what"], "count": one["count"]}
        for one in told
        if one["what"] not in modelled
    ]
    if run.get("data_time") is not None and all(one["what"] != "loaded" for one in told):
        rows.append({"rank": 0, "what": "no_loader", "count": 1})
    return rows


def marks(rows: list[Caveat]) -> list[str]:
    """In sentences without an end."""
    said = []
    for what, (noun, text) in _TEXTS.items():
        count = sum(one["count"] for one in rows if one["what"] == what)
        ranks = sorted({one["rank"] for one in rows if one["what"] == what})
        if ranks:
            of = f"rank {ranks[0]}" if len(ranks) == 1 else f"{len(ranks)} ranks"
            said.append(f"{of}: {counted(count, noun)} {text}")
    return said


def doubts(rows: list[Caveat]) -> list[str]:
    """The marks that `--strict` fails on."""
    return marks([one for one in rows if one["what"] not in _KNOWN])


def lines(rows: list[Caveat]) -> list[str]:
    """On a terminal, among what was not modelled."""
    return [f"  [red]caveat:[/] {said}" for said in marks(rows)]
