"""What PyTorch's allocator had handed out at its peak: for which module, and of what kind.

Parameters, gradients, states of optimizers and buffers are what ranks say. Of all else the phases
tell in which it was taken and given back: activations are what a forward pass leaves behind.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from phantora_py.data import RunData
from phantora_py.data.rows import HELD, NUMBERED_PHASES
from phantora_py.report.modules import path_of
from sim_server.log.scopes import PHASE_BITS

KINDS = (
    *("parameters", "gradients", "optimizer states", "activations", "temporary"),
    *("buffers", "other"),
)
_MARKED = ("", "parameters", "gradients", "optimizer states", "buffers")
assert len(_MARKED) == len(HELD)
# The phases that keep something for a backward pass.
_KEEPING = ("forward", "recomputation")


@dataclass(frozen=True)
class HeldBlock:
    """A block that was in use at the peak."""

    address: int
    size_bytes: int
    begin_ns: int
    phase: str
    """In which it was taken."""
    kind: str
    """One of KINDS."""
    path: str
    """Of the module that it belongs to; empty: of none."""


@dataclass(frozen=True)
class HeldMemory:
    """Of one device of a rank, in the order in which it was taken."""

    rank: int
    device: int
    blocks: list[HeldBlock]

    @property
    def size_bytes(self) -> int:
        """All together."""
        return sum(block.size_bytes for block in self.blocks)

    def sums(self) -> dict[tuple[str, str], int]:
        """By kind and path the bytes."""
        sums: dict[tuple[str, str], int] = defaultdict(int)
        for block in self.blocks:
            sums[block.kind, block.path] += block.size_bytes
        return dict(sums)


def held_memory(data: RunData) -> HeldMemory | None:
    """Of the fullest device; None where no rank told of its blocks."""
    rows = data.peak_blocks
    if not len(rows):
        return None
    places, which = np.unique(rows[["rank", "device"]], return_inverse=True)
    fullest = int(np.argmax(np.bincount(which, rows["size_bytes"])))
    rank, device = (int(one) for one in places[fullest])
    return HeldMemory(rank, device, [_block(data, row) for row in rows[which == fullest]])


def _block(data: RunData, row: np.void) -> HeldBlock:
    rank = int(row["rank"])
    module, phase = _parts(int(row["scope"]))
    if row["kind"]:
        kind, module = _MARKED[row["kind"]], int(row["module"])
    elif phase in _KEEPING:
        is_brief = row["end_scope"] >= 0 and _parts(int(row["end_scope"]))[1] == phase
        kind = "temporary" if is_brief else "activations"
    else:
        kind = "other" if phase == "other" else "temporary"
    return HeldBlock(
        *(int(row["address"]), int(row["size_bytes"]), int(row["begin_ns"]), phase, kind),
        path_of(data, rank, module),
    )


def _parts(scope: int) -> tuple[int, str]:
    module, phase = divmod(scope, 1 << PHASE_BITS)
    return module, NUMBERED_PHASES[phase]
