"""Marks that a program may set itself. Outside a run they do nothing."""

from __future__ import annotations

import ctypes
import functools

ITERATION = 2  # MarkerKind in sim_server/records/schema.py


def mark_iteration(name: str = "iteration") -> None:
    """Tells the report that an iteration ends here; has precedence over optimizer steps."""
    shim = _shim()
    if shim is not None:
        shim.ph_marker(ITERATION, name.encode())


@functools.cache
def _shim() -> ctypes.CDLL | None:
    process = ctypes.CDLL(None)
    return process if hasattr(process, "ph_marker") else None
