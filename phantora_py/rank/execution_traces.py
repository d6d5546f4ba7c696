"""PyTorch's own observer writes the operators of a rank into the run directory (docs/traces.md).

The standard library only: ranks import it. What the observer does takes no virtual time: it makes
no call of CUDA.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from .counting import counts_work

FOLDER = "execution-traces"
"""In the run directory, if traces are wanted; a file a rank."""
C10D = "torch.distributed.distributed_c10d"
STREAM_CALL = "## phantora:stream ##"
"""Nodes of calls of `torch.cuda` that order streams: what the observer does not see."""
_GROUPS = "## process_group:init ##"  # ExecutionTraceObserver of torch/profiler/profiler.py


def file_of(rank: int) -> str:
    """The name of a rank's file."""
    return f"rank-{rank}.json"


class ExecutionTrace:
    """The trace of this process, if it is to write one."""

    def __init__(self, shim: ctypes.CDLL, run_dir: Path) -> None:
        self._shim = shim
        self._folder = run_dir / FOLDER
        self._profiler: Any = None
        self._process = os.getpid()
        self._told = ""

    def actions(self) -> dict[str, Callable[[ModuleType], None]]:
        """Modules, and what is to be done once each has been imported.

        Where the program's work is counted nothing: charges would come at other moments. Then
        groups are told at optimizer steps and at the end.
        """
        if not self._folder.is_dir() or counts_work(self._shim):
            return {}
        return {C10D: self._watch_groups}

    def begin(self, torch: ModuleType) -> None:
        """PyTorch has been imported."""
        if not self._folder.is_dir():
            return
        profiler = torch._C._profiler
        path = self._folder / file_of(int(os.environ["PHANTORA_RANK"]))
        if not profiler._add_execution_trace_observer(str(path)):
            print("phantora: this PyTorch writes no execution trace", file=sys.stderr)
            return
        profiler._enable_execution_trace_observer()
        self._profiler, self._process = profiler, os.getpid()
        if not counts_work(self._shim):
            self._watch_streams(torch)
        os.register_at_fork(after_in_child=self._leave_to_parent)

    def _leave_to_parent(self) -> None:
        """A child, as a data loader's, has the parent's file open and must not write there."""
        if self._profiler is not None:
            self._profiler._disable_execution_trace_observer()
            self._profiler = None

    def _watch_groups(self, c10d: ModuleType) -> None:
        """Groups are told when others come, and before they go: then they are complete."""
        for name in ("_new_process_group_helper", "_update_default_pg"):
            original = getattr(c10d, name)

            @functools.wraps(original)
            def change(*args: Any, original: Any = original, **kwargs: Any) -> Any:
                self.tell_groups()
                return original(*args, **kwargs)

            setattr(c10d, name, change)

    def _watch_streams(self, torch: ModuleType) -> None:
        """Has the trace tell which streams and events the program's Python uses."""
        cuda = torch.cuda

        def watch(owner: Any, name: str, tell: Callable[..., dict[str, Any]]) -> None:
            original = getattr(owner, name)

            @functools.wraps(original)
            def call(*args: Any, **kwargs: Any) -> Any:
                if self._profiler is not None and not torch.compiler.is_compiling():
                    self._tell(torch, tell(*args, **kwargs))
                return original(*args, **kwargs)

            setattr(owner, name, call)

        def number(stream: Any) -> int | None:
            return None if stream is None else int(stream.cuda_stream)

        def on(call: str, event: Any, stream: Any) -> dict[str, Any]:
            told = {"call": call, "stream": number(stream)}
            return told if event is None else told | {"event": id(event)}

        # What streams have of events goes through these, too.
        watch(cuda, "set_stream", lambda stream: {"call": "set", "stream": number(stream)})
        watch(cuda.Event, "record", lambda event, stream=None: on("record", event, stream))
        watch(cuda.Event, "wait", lambda event, stream=None: on("wait", event, stream))
        watch(cuda.Event, "synchronize", lambda event: on("sync_event", event, None))
        watch(cuda.Stream, "synchronize", lambda stream: on("sync_stream", None, stream))
        watch(cuda, "synchronize", lambda device=None: on("sync", None, None))

    def _tell(self, torch: ModuleType, call: dict[str, Any]) -> None:
        self._shim.ph_enter()
        try:
            handle = torch.autograd._record_function_with_args_enter(STREAM_CALL, json.dumps(call))
            torch.autograd._record_function_with_args_exit(handle)
        finally:
            self._shim.ph_leave()

    def tell_groups(self) -> None:
        """As PyTorch's observer tells those that are there when it starts."""
        c10d = sys.modules.get(C10D)
        if self._profiler is None or c10d is None:
            return
        self._shim.ph_enter()
        try:
            if not c10d.is_initialized():
                return
            if any(group not in c10d._world.pg_group_ranks for group in c10d._world.pg_map):
                return  # one is being made, and will be told with the next
            text = json.dumps(c10d._world.pg_config_info)
            if text != self._told:
                self._told = text
                autograd = sys.modules["torch"].autograd
                handle = autograd._record_function_with_args_enter(_GROUPS, text)
                autograd._record_function_with_args_exit(handle)
        finally:
            self._shim.ph_leave()

    def end(self) -> None:
        """Completes the file."""
        if self._profiler is None or os.getpid() != self._process:
            return
        self.tell_groups()
        self._profiler._disable_execution_trace_observer()
        self._profiler._remove_execution_trace_observer()
        self._profiler = None
