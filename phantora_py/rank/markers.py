"""Marks that a program may set itself. Outside a run they do nothing."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

ITERATION = 2  # MarkerKind in sim_server/records/schema.py

listeners: list[Callable[[int, str], None]] = []
"""Who is told of marks, with their kind and name."""


def mark_iteration(name: str = "iteration") -> None:
    """Tells the report that an iteration ends here; has precedence over optimizer steps."""
    mark(ITERATION, name)


def mark(kind: int, name: str) -> None:
    """A mark of any kind (MarkerKind in sim_server/records/schema.py)."""
    shim = _shim()
    if shim is not None:
        tell(kind, name)
        shim.ph_marker(kind, name.encode())


def tell(kind: int, name: str) -> None:
    """Tells the listeners of a mark."""
    for listener in listeners:
        listener(kind, name)


@functools.cache
def _shim() -> ctypes.CDLL | None:
    process = ctypes.CDLL(None)
    return process if hasattr(process, "ph_marker") else None
