"""What PyTorch's allocated memory is: parameters, gradients, states of optimizers, and the rest.

Looks when a backward pass begins and when an optimizer steps, and tells the fullest of these
moments. Only with `--memory-kinds`. The standard library only: ranks import it.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

KINDS_FILE = "memory-kinds"


class MemoryKinds:
    """The hooks of one rank's process. Optimizers are known from their first step on."""

    def __init__(self, shim: ctypes.CDLL, run_dir: Path) -> None:
        self._shim = shim
        self._run_dir = run_dir
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._most: dict[int, int] = {}
        self.process = os.getpid()

    def actions(self) -> dict[str, Callable[[ModuleType], None]]:
        """By module, what is to be done once it has been imported."""
        if not (self._run_dir / KINDS_FILE).exists():
            return {}
        return {
            "torch.autograd": self._watch_backward,
            "torch.optim.optimizer": self._watch_optimizers,
        }

    def _watch_backward(self, autograd: Any) -> None:
        original = autograd.backward

        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            self._look("backward")
            return original(*args, **kwargs)

        autograd.backward = backward

    def _watch_optimizers(self, module: ModuleType) -> None:
        def before(optimizer: Any, *_: Any) -> None:
            self._optimizers.add(optimizer)
            self._look("step")

        def after(*_: Any) -> None:
            self._look("step")

        module.register_optimizer_step_pre_hook(before)
        module.register_optimizer_step_post_hook(after)

    def _look(self, when: str) -> None:
        torch = sys.modules["torch"]
        if os.getpid() != self.process or torch.compiler.is_compiling() or not self._optimizers:
            return
        self._shim.ph_enter()
        try:
            with torch.no_grad():
                self._tell(torch, when)
        finally:
            self._shim.ph_leave()

    def _tell(self, torch: Any, when: str) -> None:
        parameters = [
            parameter
            for optimizer in self._optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
        ]
        devices = {one.device.index for one in parameters if one.device.type == "cuda"}
        for device in sorted(devices):
            allocated = torch.cuda.memory_allocated(device)
            if allocated <= self._most.get(device, 0):
                continue
            self._most[device] = allocated
            gradients = (one.grad for one in parameters if one.grad is not None)
            seen: set[int] = set()
            told = {
                "kind": "memory_kinds",
                "device": self._shim.ph_node_gpu(device),
                "when": when,
                "sizes_bytes": {
                    "allocated": allocated,
                    "parameters": _size_bytes(parameters, device, seen),
                    "gradients": _size_bytes(gradients, device, seen),
                    "optimizer": _size_bytes(self._states(torch), device, seen),
                },
            }
            self._shim.ph_statistics(json.dumps(told).encode())

    def _states(self, torch: Any) -> Iterator[Any]:
        for optimizer in self._optimizers:
            for state in optimizer.state.values():
                values = state.values() if isinstance(state, dict) else ()
                yield from (one for one in values if isinstance(one, torch.Tensor))


def _size_bytes(tensors: Iterable[Any], device: int, seen: set[int]) -> int:
    """Of their storages on a device, each once; of a sharded tensor the rank's own part."""
    total = 0
    for tensor in tensors:
        own = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        if own.device.type != "cuda" or own.device.index != device:
            continue
        storage = own.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            total += storage.nbytes()
    return total
