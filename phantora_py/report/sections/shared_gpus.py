"""GPUs that several processes work on: each has it to itself, so that their times are too short."""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from phantora_py.report.findings import Findings
from sim_server.log.history import KERNEL_SPAN


class SharedGpu(TypedDict):
    """A GPU on which kernels of several ranks ran."""

    node: int
    device: int
    """Its number on the node."""
    ranks: list[int]


def make(found: Findings) -> list[SharedGpu]:
    """The entry of the summary; empty for files of earlier versions, which may count otherwise."""
    if "own_ranks" not in found.data.run:
        return []
    spans = found.data.spans
    kernels = spans[spans["kind"] == KERNEL_SPAN][["rank", "device"]]
    users: dict[tuple[int, int], list[int]] = {}
    for rank, device in np.unique(kernels).tolist():
        node = rank // found.data.run["gpus_per_node"]
        users.setdefault((node, device), []).append(rank)
    return [
        {"node": node, "device": device, "ranks": ranks}
        for (node, device), ranks in sorted(users.items())
        if len(ranks) > 1
    ]


def mark(shared: list[SharedGpu]) -> str:
    """What marks a result with such GPUs; "" for another."""
    if not shared:
        return ""
    first, more = shared[0], len(shared) - 1
    ranks = ", ".join(map(str, first["ranks"]))
    others = f", and {more} other GPU{'s' if more > 1 else ''}, too" if more else ""
    return (
        f"ranks {ranks} work on GPU {first['device']} of node {first['node']}{others}: each has it "
        "to itself, and neither their work nor their memory adds up"
    )


def lines(shared: list[SharedGpu]) -> list[str]:
    """On a terminal, among what was not modelled."""
    marked = mark(shared)
    return [f"  [red]shared GPU:[/] {marked}"] if marked else []
