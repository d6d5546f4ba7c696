"""Rows of a data file that have names."""

from __future__ import annotations

from typing import NamedTuple

BATCH_SOURCES = ("embedding", "graph", "loader")
"""By what a rank tells of a batch, the one to be believed first (phantora_py/rank/batches.py)."""
PHASES = ("forward", "recomputation", "backward", "optimizer", "other")
"""Of training, in which a rank issues work (phantora_py/rank/modules.py)."""
NUMBERED_PHASES = ("other", *PHASES[:-1])
"""As records have them (csrc/shim/modules/scope.cc)."""
HELD = ("", "parameters", "gradients", "optimizer", "buffers")
"""What a block of memory is, as phantora_py/rank/module_memory.py numbers it; "": nobody said."""


class Allocation(NamedTuple):
    """Device memory that a rank took, or gave back."""

    rank: int
    time_ns: int
    """Of the rank's host."""
    device: int
    kind: int
    """MemoryKind."""
    size_bytes: int
    """As charged to the device; negative: given back."""
    in_use_bytes: int
    """Of the device, afterwards."""
    pointer: int
    """0 for what has no address."""
    site: str
    """The Python line that took it."""


class Batch(NamedTuple):
    """A piece of the training data that a rank has taken."""

    rank: int
    time_ns: int
    """Of the rank's host."""
    source: str
    """One of BATCH_SOURCES."""
    key: str
    """The table, the graph or the loader."""
    samples: int
    tokens: int
    """0 if it has none."""
