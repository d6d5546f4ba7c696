"""The tree of Python functions that host time was charged to, as a data file has it."""

from __future__ import annotations

from typing import Any

from sim_server.files.schema import MOST_NS, Fault, printable, row, rows, whole

DEEPEST = 200
"""As csrc/shim/host_time/call_tree.cc has it."""
MOST_STACKS = 100_000

_ROWS = rows(row(whole(0, MOST_STACKS), printable, whole(0, MOST_NS)))


def check_stacks(value: Any) -> None:
    """Rows of a caller's place from 1 on, or 0, a function, and ns. Raises: Fault."""
    _ROWS(value)
    if len(value) > MOST_STACKS:
        raise Fault(f"it has {len(value):,} functions")
    depths = [0]
    for place, (caller, *_) in enumerate(value):
        if caller > place:
            raise Fault(f"the caller of row {place} does not come before it")
        depths.append(depths[caller] + 1)
        if depths[-1] > DEEPEST:
            raise Fault(f"row {place} is called within {DEEPEST} others")
