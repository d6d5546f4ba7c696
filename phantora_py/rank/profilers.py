"""PyTorch's profiler reads the processor's time-stamp counter, which has to show virtual time.

The standard library only: ranks import it. Why so: docs/decisions/profilers.md.
"""

from __future__ import annotations

import ctypes
import functools
from types import ModuleType
from typing import Any

PROFILER = "torch.autograd.profiler"
_BEGINNINGS = ("_prepare_profiler", "_enable_profiler")


def prepare_profilers(shim: ctypes.CDLL, profiler: ModuleType) -> None:
    """Makes the counter virtual when a profiler begins: a program without one is left as it is."""
    for name in _BEGINNINGS:
        original = getattr(profiler, name)

        @functools.wraps(original)
        def begin(*args: Any, original: Any = original, **kwargs: Any) -> Any:
            shim.ph_make_counter_virtual()
            return original(*args, **kwargs)

        setattr(profiler, name, begin)
