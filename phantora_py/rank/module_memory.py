"""Tells what PyTorch's memory held at its peak: for which module it was taken, and what it is.

The shim knows each block and for which module it was taken (csrc/shim/modules/blocks.cc). Here it
is told which blocks are parameters, gradients, states of optimizers and buffers. The standard
library only: ranks import it.
"""

from __future__ import annotations

import ctypes
import json
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

# As `HELD` in phantora_py/data/rows.py has them.
_PARAMETERS, _GRADIENTS, _OPTIMIZER, _BUFFERS = 1, 2, 3, 4
_IN_USE = (1 << 32) - 1
# In one record; the channel holds a few thousand (assumed to be little beside that).
_AT_ONCE = 512

Numbers = Mapping[Any, tuple[int, str]]
"""By module its number, and its path."""


class _Block(ctypes.Structure):
    """`Block` of csrc/shim/modules/blocks.h."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("address", "bytes")),
        ("begin_ns", ctypes.c_int64),
        ("number", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in ("scope", "end_scope", "kind", "module")),
    )


class ModuleMemory:
    """Of one rank's process. `calls`: the shim, called with the GIL held."""

    def __init__(self, shim: ctypes.CDLL, calls: ctypes.PyDLL) -> None:
        self._shim = shim
        self._calls = calls
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._told: dict[int, int] = {}
        calls.ph_memory_peak.restype = ctypes.c_uint64
        calls.ph_peak_blocks.restype = ctypes.c_size_t

    def add_optimizer(self, optimizer: Any) -> None:
        """It has stepped."""
        self._optimizers.add(optimizer)

    def look(self, numbers: Numbers) -> None:
        """Tells of the devices whose peak is higher than when it was told last."""
        cuda = sys.modules.get("torch.cuda")
        if cuda is None or not cuda.is_initialized():
            return
        for device in range(cuda.device_count()):
            peak_bytes = self._calls.ph_memory_peak(device)
            if peak_bytes > self._told.get(device, 0):
                self._told[device] = peak_bytes
                self._mark(sys.modules["torch"], device, numbers)
                self._tell(device)

    def _mark(self, torch: Any, device: int, numbers: Numbers) -> None:
        with torch.no_grad():
            marked: set[int] = set()
            for kind, number, tensor in self._held(torch, numbers):
                own = tensor.to_local() if hasattr(tensor, "to_local") else tensor
                if own.device.type == "cuda" and own.device.index == device:
                    address = own.untyped_storage().data_ptr()
                    # The first who knows a tensor says what it is.
                    if id(tensor) not in marked:
                        marked.add(id(tensor))
                        self._calls.ph_mark_memory(device, ctypes.c_uint64(address), kind, number)

    def _held(self, torch: Any, numbers: Numbers) -> Iterator[tuple[int, int, Any]]:
        """Tensors, what they are and the number of the module that they belong to."""
        owners: dict[int, int] = {}
        for module, (number, _) in numbers.items():
            for parameter in _tensors(torch, module._parameters.values()):
                owners[id(parameter)] = number
                yield from _with_gradient(parameter, number)
            for buffer in _tensors(torch, module._buffers.values()):
                yield _BUFFERS, number, buffer
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    yield from _with_gradient(parameter, owners.get(id(parameter), 0))
            for parameter, state in optimizer.state.items():
                values = state.values() if isinstance(state, dict) else ()
                for value in _tensors(torch, values):
                    yield _OPTIMIZER, owners.get(id(parameter), 0), value

    def _tell(self, device: int) -> None:
        most = self._calls.ph_peak_blocks(device, None, ctypes.c_size_t(0))
        blocks = (_Block * most)()
        most = min(most, self._calls.ph_peak_blocks(device, blocks, ctypes.c_size_t(most)))
        rows = [
            (
                *(block.address, block.bytes, block.begin_ns, block.scope),
                *(-1 if block.end_scope == _IN_USE else block.end_scope, block.kind, block.module),
            )
            for block in blocks[:most]
        ]
        for begin in range(0, len(rows), _AT_ONCE):
            told = {
                "kind": "peak_blocks",
                "device": self._shim.ph_node_gpu(device),
                "begin": begin,
                "blocks": rows[begin : begin + _AT_ONCE],
            }
            self._shim.ph_statistics(json.dumps(told).encode())


def _with_gradient(parameter: Any, number: int) -> Iterator[tuple[int, int, Any]]:
    yield _PARAMETERS, number, parameter
    if parameter.grad is not None:
        yield _GRADIENTS, number, parameter.grad


def _tensors(torch: Any, values: Iterable[Any]) -> Iterator[Any]:
    return (value for value in values if isinstance(value, torch.Tensor))
