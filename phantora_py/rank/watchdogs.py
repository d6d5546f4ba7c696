"""DistributedDataParallel makes its buckets anew after the watchdogs have seen what is over.

A collective that nobody waits for, as those of DDP's reducer, keeps its tensors until a watchdog
of PyTorch has found it complete, and gives them back at the next collective (TensorShelf
in ProcessGroupNCCL.hpp, since 2.7). A watchdog looks every 100 ms of real time. So it would be luck
whether the first buckets are still there when the reducer makes others, with up to the bytes of all
gradients more at the peak. Here the rank waits in real time, once, until each watchdog has looked.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from .caveats import tell_caveat

_NAME = "pt_nccl_watchdg"  # of its thread (ProcessGroupNCCL.cpp)
# Of the rank's processor, for a machine that is very busy (assumed).
_LIMIT_S = 2.0
# Of a thread that has ended, as that of a process group that was destroyed.
_GONE = (FileNotFoundError, ProcessLookupError)


class Watchdogs:
    """The hooks of one rank's process."""

    def __init__(self, shim: ctypes.CDLL) -> None:
        self._shim = shim
        self._by_reducer: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._has_looked: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        """Of wrappers whose gradients were exchanged: whether the watchdogs have looked since."""

    def actions(self) -> dict[str, Callable[[ModuleType], None]]:
        """By module, what is to be done once it has been imported."""
        return {"torch.nn.parallel.distributed": self._watch}

    def _watch(self, module: ModuleType) -> None:
        from torch.distributed import Reducer as reducer  # noqa: PLC0415, N813 - once it is imported

        wrapper = module.DistributedDataParallel
        usual_init, usual_rebuild = wrapper.__init__, reducer._rebuild_buckets

        @functools.wraps(usual_init)
        def make(wrapped: Any, *arguments: Any, **options: Any) -> None:
            usual_init(wrapped, *arguments, **options)
            if (made := getattr(wrapped, "reducer", None)) is not None:
                self._by_reducer[id(made)] = wrapped

        def rebuild(of: Any) -> bool:
            if (wrapped := self._by_reducer.get(id(of))) is not None:
                self._before_rebuild(wrapped)
            return bool(usual_rebuild(of))

        rebuild._torchdynamo_disable = True  # type: ignore[attr-defined]
        wrapper.__init__ = make
        reducer._rebuild_buckets = rebuild

    def _before_rebuild(self, wrapped: Any) -> None:
        """At each forward pass; in the first after gradients were exchanged buckets are rebuilt."""
        if self._has_looked.get(wrapped) is False:
            self._has_looked[wrapped] = True
            self._shim.ph_enter()
            try:
                if not await_watchdogs(self._shim):
                    tell_caveat(self._shim, "watchdog")
            finally:
                self._shim.ph_leave()
        elif wrapped.require_backward_grad_sync:
            self._has_looked.setdefault(wrapped, False)


def await_watchdogs(shim: ctypes.CDLL) -> bool:
    """Waits until each watchdog of this process has looked at all works that there are now; False:
    not within the limit.
    """
    limit_s = time.thread_time() + _LIMIT_S
    have_looked = True
    for task in _watchdogs():
        with contextlib.suppress(*_GONE):
            have_looked &= _await(task, limit_s, shim)
    return have_looked


def _watchdogs() -> list[Path]:
    found = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(*_GONE):
            if (task / "comm").read_text().rstrip() == _NAME:
                found.append(task)
    return found


def _await(task: Path, limit_s: float, shim: ctypes.CDLL) -> bool:
    """Between two pauses it has made a round that began after the first."""
    pauses: set[int] = set()
    while time.thread_time() < limit_s:
        pauses |= _pause(task, shim)
        if len(pauses) > 1:
            return True
        os.sched_yield()
    return False


def _pause(task: Path, shim: ctypes.CDLL) -> set[int]:
    """The number of its sleep if it sleeps between two rounds: within one it does so only while it
    waits for an answer. Empty: it does not, or it is not known.

    In this order: whoever was asleep at the first look and waited for no answer at the second is
    awake at the third if one has come meanwhile, unless it sleeps again, which the last shows.
    """
    sleeps = _sleeps(task)
    if shim.ph_helpers_ask() or _state(task) != "S" or _sleeps(task) != sleeps:
        return set()
    return {sleeps}


def _state(task: Path) -> str:
    """As the kernel shows it, after the name, which is in parentheses."""
    return (task / "stat").read_text().rpartition(") ")[2][0]


def _sleeps(task: Path) -> int:
    """How often it has gone to sleep."""
    status = (task / "status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
