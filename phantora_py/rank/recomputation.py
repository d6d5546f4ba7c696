"""Marks where activation checkpointing computes a forward pass again.

What is launched there is work of the GPU and none of the model (docs/decisions/throughput.md). The
standard library only: ranks import it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

BEGIN = b'{"kind": "recomputation", "event": "begin"}'
END = b'{"kind": "recomputation", "event": "end"}'
COMPILED = b'{"kind": "recomputation", "event": "compiled"}'


class Recomputation:
    """The hooks of one rank's process."""

    def __init__(self, shim: ctypes.CDLL) -> None:
        self._shim = shim
        self.process = os.getpid()
        self._local = threading.local()

    def actions(self) -> dict[str, Callable[[ModuleType], None]]:
        """By module, what is to be done once it has been imported."""
        return {
            "torch.utils.checkpoint": self._watch_torch,
            "torch._dynamo.variables.higher_order_ops": self._watch_compiler,
            "megatron.core.tensor_parallel.random": self._watch_function,
            "deepspeed.runtime.activation_checkpointing.checkpointing": self._watch_function,
        }

    @property
    def is_under_way(self) -> bool:
        """Whether this thread computes something again."""
        return getattr(self._local, "depth", 0) > 0

    def _watch_torch(self, checkpoint: ModuleType) -> None:
        self._watch_function(checkpoint)
        self._watch_frames(checkpoint._CheckpointFrame)

    def _watch_function(self, module: ModuleType) -> None:
        """A `CheckpointFunction`, whose backward pass calls what its context keeps."""
        function = module.CheckpointFunction
        usual = function.backward

        @functools.wraps(usual)
        def backward(context: Any, *gradients: Any) -> Any:
            context.run_function = self.marked(context.run_function)
            return usual(context, *gradients)

        function.backward = staticmethod(backward)

    def _watch_frames(self, frame: Any) -> None:
        """`frame`: what a checkpoint without reentrance keeps; it is asked once for its tensors."""
        usual = frame.__init__

        @functools.wraps(usual)
        def keep(self_: Any, recompute: Any, *arguments: Any, **options: Any) -> None:
            usual(self_, self.marked(recompute), *arguments, **options)

        frame.__init__ = keep

    def _watch_compiler(self, operators: ModuleType) -> None:
        """Of a checkpoint within a compiled graph nobody can tell what is computed again."""
        compiled = getattr(operators, "CheckpointHigherOrderVariable", None)
        for name in ("call_function", "_call_function"):
            usual = vars(compiled).get(name) if compiled is not None else None
            if usual is not None:
                setattr(compiled, name, self._noted(usual))

    def _noted(self, usual: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(usual)
        def trace(*arguments: Any, **options: Any) -> Any:
            self._say(COMPILED)
            return usual(*arguments, **options)

        return trace

    def marked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` between two marks; only the outermost has them."""

        @functools.wraps(function)
        def again(*arguments: Any, **options: Any) -> Any:
            self._enter(1, BEGIN)
            try:
                return function(*arguments, **options)
            finally:
                self._enter(-1, END)

        return again

    def _enter(self, change: int, mark: bytes) -> None:
        before = getattr(self._local, "depth", 0)
        self._local.depth = before + change
        if before == 0 or self._local.depth == 0:
            self._say(mark)

    def _say(self, mark: bytes) -> None:
        if os.getpid() == self.process:
            self._shim.ph_enter()
            self._shim.ph_statistics(mark)
            self._shim.ph_leave()
