"""Marks of what a program repeats beside its optimizers' steps: hints for what an iteration is.

Backward passes, steps of torch.profiler and of learning-rate schedulers, and calls of the function
that `--iteration call:MODULE:FUNCTION` names. The standard library only: ranks import it.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from .markers import tell

# MarkerKind in sim_server/records/schema.py
BACKWARD, PROFILER_STEP, SCHEDULER_STEP, CALL = 6, 7, 8, 9
CALL_FILE = "iteration-call"


class StepMarks:
    """The hooks of one rank's process."""

    def __init__(self, shim: ctypes.CDLL, run_dir: Path) -> None:
        self._shim = shim
        self._run_dir = run_dir
        self.process = os.getpid()

    def actions(self) -> dict[str, Callable[[ModuleType], None]]:
        """By module, what is to be done once it has been imported."""
        found = {
            "torch.autograd": self._watch_backward,
            "torch.profiler.profiler": self._watch_profiler,
            "torch.optim.lr_scheduler": self._watch_schedulers,
        }
        call = self._run_dir / CALL_FILE
        if call.exists():
            module, _, function = call.read_text(encoding="utf-8").partition(":")
            found[module] = functools.partial(self._watch_call, function)
        return found

    def _watch_backward(self, autograd: ModuleType) -> None:
        self._mark_after(autograd, "backward", self._mark_line)

    def _watch_profiler(self, profiler: ModuleType) -> None:
        mark = functools.partial(self._mark, PROFILER_STEP)
        self._mark_after(profiler.profile, "step", mark)

    def _watch_schedulers(self, schedulers: ModuleType) -> None:
        mark = functools.partial(self._mark, SCHEDULER_STEP)
        self._mark_after(schedulers.LRScheduler, "step", mark)
        self._mark_after(schedulers.ReduceLROnPlateau, "step", mark)

    def _watch_call(self, function: str, module: ModuleType) -> None:
        """Marks each end of `function`, a name or `Class.method`, in `module`."""
        *path, name = function.split(".")
        owner: Any = module
        for part in path:
            owner = getattr(owner, part, None)
        if not callable(getattr(owner, name, None)):
            print(
                f"phantora: --iteration call:{module.__name__}:{function}: the module "
                f"{module.__name__} has no function {function}",
                file=sys.stderr,
            )
            return
        text = f"{module.__name__}:{function}"
        self._mark_after(owner, name, functools.partial(self._mark, CALL, text))

    def _mark_after(self, owner: Any, name: str, mark: Callable[[], None]) -> None:
        """Replaces `owner.name` by itself and a mark when the outermost call has returned."""
        kept = inspect.getattr_static(owner, name)
        is_bound = isinstance(kept, (staticmethod, classmethod))
        original = kept.__func__ if is_bound else getattr(owner, name)
        depth = 0

        @functools.wraps(original)
        def marked(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            depth += 1
            try:
                result = original(*args, **kwargs)
            finally:
                depth -= 1
            if depth == 0 and os.getpid() == self.process:
                mark()
            return result

        setattr(owner, name, type(kept)(marked) if is_bound else marked)

    def _mark_line(self) -> None:
        tell(BACKWARD, "")
        self._shim.ph_marker_here(BACKWARD)

    def _mark(self, kind: int, name: str = "") -> None:
        tell(kind, name)
        self._shim.ph_marker(kind, name.encode())
