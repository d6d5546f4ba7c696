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
from .markers import listeners

FOLDER = "execution-traces"
"""In the run directory, if traces are wanted; a file a rank."""
KERNEL = "## phantora:kernel ##"
"""Nodes of kernels of Triton: name and arguments."""
TRITON = "triton.runtime.jit"
C10D = "torch.distributed.distributed_c10d"
STREAM_CALL = "## phantora:stream ##"
"""Nodes of calls of `torch.cuda` that order streams: what the observer does not see."""
MARK = "## phantora:mark ##"
"""Nodes of marks of iterations: kind and name."""
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
        self._torch: Any = None
        self._process = os.getpid()
        self._told = ""

    def actions(self) -> dict[str, Callable[[ModuleType], None]]:
        """Modules, and what is to be done once each has been imported.

        Where the program's work is counted nothing: charges would come at other moments. Then
        groups are told at optimizer steps and at the end.
        """
        if not self._folder.is_dir() or counts_work(self._shim):
            return {}
        return {C10D: self._watch_groups, TRITON: self._watch_triton}

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
        self._torch = torch
        if not counts_work(self._shim):
            self._watch_streams(torch)
            self._watch_graphs(torch)
            self._watch_compiled(torch)
            listeners.append(self.tell_mark)
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

    def _watch_compiled(self, torch: ModuleType) -> None:
        """Compiled code tells its kernels only while a profiler runs; it is to tell them here."""

        def stop() -> None:
            """The program's own profiler has ended, and this goes on."""

        trace, original = self, torch._C._profiler._RecordFunctionFast

        class Record:
            """What compiled code enters around the launch of a kernel."""

            def __init__(self, name: str, *told: Any, **named: Any) -> None:
                self._inner = original(name, *told, **named)
                # Only kernels have arguments, and then what they were compiled to.
                self._kernel = (name, *told[0]) if len(told) > 1 else ()

            def __enter__(self) -> None:
                if self._kernel:
                    trace._tell_kernel(self._kernel)
                self._inner.__enter__()

            def __exit__(self, *error: object) -> None:
                self._inner.__exit__(*error)

        torch._C._profiler._RecordFunctionFast = Record
        torch.autograd.profiler._set_is_profiler_enabled(True)
        torch.autograd.profiler._run_on_profiler_stop = stop

    def _watch_triton(self, jit: ModuleType) -> None:
        """Kernels that a program launches itself."""
        original = jit.JITFunction.run

        @functools.wraps(original)
        def run(kernel: Any, *args: Any, warmup: bool, **kwargs: Any) -> Any:
            if not warmup:
                self._tell_kernel((kernel.__name__, *args, *kwargs.values()))
            return original(kernel, *args, warmup=warmup, **kwargs)

        jit.JITFunction.run = run

    def _tell_kernel(self, told: tuple[Any, ...]) -> None:
        if self._profiler is not None:
            tensors = [one for one in told[1:] if isinstance(one, self._torch.Tensor)]
            self._enter(KERNEL, told[0], *tensors)

    def tell_mark(self, kind: int, name: str) -> None:
        """Has the trace tell that the program sets a mark here."""
        if self._profiler is not None and not self._torch.compiler.is_compiling():
            self._tell(MARK, {"kind": kind, "name": name})

    def _watch(self, owner: Any, name: str, tell: Callable[..., dict[str, Any]]) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._profiler is not None and not self._torch.compiler.is_compiling():
                self._tell(STREAM_CALL, tell(*args, **kwargs))
            return original(*args, **kwargs)

        setattr(owner, name, call)

    def _watch_graphs(self, torch: ModuleType) -> None:
        """Has the trace tell what is captured in CUDA graphs, and when these are replayed."""

        def of(call: str) -> Callable[..., dict[str, Any]]:
            return lambda graph, *_, **__: {"call": call, "graph": id(graph)}

        for name, call in (
            *(("capture_begin", "capture"), ("capture_end", "captured"), ("replay", "replay")),
        ):
            self._watch(torch.cuda.CUDAGraph, name, of(call))

    def _watch_streams(self, torch: ModuleType) -> None:
        """Has the trace tell which streams and events the program's Python uses."""
        cuda, watch = torch.cuda, self._watch

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

    def _tell(self, name: str, told: dict[str, Any]) -> None:
        self._enter(name, json.dumps(told))

    def _enter(self, name: str, *told: Any) -> None:
        """A node with these arguments."""
        autograd = self._torch.autograd
        self._shim.ph_enter()
        try:
            handle = autograd._record_function_with_args_enter(name, *told)
            autograd._record_function_with_args_exit(handle)
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
