"""Marks of what a program repeats beside its optimizers' steps: hints for what an iteration is.

Backward passes, steps of torch.profiler and of learning-rate schedulers, and calls of the function
that `--iteration call:MODULE:FUNCTION` names. The standard library only: ranks import it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

# ph::MarkerKind in csrc/protocol/records.h
BACKWARD, PROFILER_STEP, SCHEDULER_STEP, CALL = 6, 7, 8, 9
CALL_FILE = "iteration-call"


class StepMarks:
    """The hooks of one rank's process."""

    def __init__(self, shim: ctypes.CDLL, run_dir: Path) -> None:
        self._shim = shim
        self._run_dir = run_dir
        self._process = os.getpid()

    def watch(self, torch: ModuleType) -> None:
        """From now on marks are left; `torch` has been imported."""
        self._mark_after(torch.autograd, "backward", self._mark_line)
        profile = torch.profiler.profile
        self._mark_after(profile, "step", functools.partial(self._mark, PROFILER_STEP))
        schedulers = torch.optim.lr_scheduler
        mark_scheduler = functools.partial(self._mark, SCHEDULER_STEP)
        self._mark_after(schedulers.LRScheduler, "step", mark_scheduler)
        self._mark_after(schedulers.ReduceLROnPlateau, "step", mark_scheduler)

    def chosen_call(self) -> tuple[str, str] | None:
        """Module and function that the user named."""
        path = self._run_dir / CALL_FILE
        if not path.exists():
            return None
        module, _, function = path.read_text(encoding="utf-8").partition(":")
        return module, function

    def watch_call(self, function: str, module: ModuleType) -> None:
        """Marks each end of `function`, a name or `Class.method`, in `module`."""
        *path, name = function.split(".")
        owner: Any = functools.reduce(lambda one, part: getattr(one, part, None), path, module)
        if not callable(getattr(owner, name, None)):
            print(
                f"phantora: --iteration call: {module.__name__} has no function {function}",
                file=sys.stderr,
            )
            return
        text = f"{module.__name__}:{function}"
        self._mark_after(owner, name, functools.partial(self._mark, CALL, text))

    def _mark_after(self, owner: Any, name: str, mark: Callable[[], None]) -> None:
        """Replaces `owner.name` by itself and a mark when the outermost call has returned."""
        original = getattr(owner, name)
        depth = 0

        @functools.wraps(original)
        def marked(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            depth += 1
            try:
                result = original(*args, **kwargs)
            finally:
                depth -= 1
            if depth == 0 and os.getpid() == self._process:
                mark()
            return result

        setattr(owner, name, marked)

    def _mark_line(self) -> None:
        self._shim.ph_marker_here(BACKWARD)

    def _mark(self, kind: int, name: str = "") -> None:
        self._shim.ph_marker(kind, name.encode())
