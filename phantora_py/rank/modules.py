"""Tells for which `nn.Module`, and in which phase, a rank's work is issued.

Which module that is the shim finds at each launch (csrc/shim/modules/scope.cc). Here are the paths
of modules, once the shim has met one, and what programs do beside modules: backward passes, steps
of optimizers, clipping. Only with `--modules`. The standard library only: ranks import it.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from .module_memory import ModuleMemory

MODULES_FILE = "modules"
# Attributes in which wrappers of PyTorch, DeepSpeed and others keep the module that they wrap.
_WRAPPERS = {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
# Phases as the shim numbers them, below the number of a module, or of an optimizer's class.
_OTHER, _BACKWARD, _OPTIMIZER = 0, 3, 4
_PHASE_BITS = 3
# Where a node of autograd's graph may have its numbers, in bytes (assumed).
_NODE_FIELDS = range(8, 96, 8)

_FindNames = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class Modules:
    """Of one rank's process."""

    def __init__(self, shim: ctypes.CDLL, run_dir: Path) -> None:
        self._shim = shim
        self._run_dir = run_dir
        self._paths: weakref.WeakKeyDictionary[Any, tuple[int, str]] = weakref.WeakKeyDictionary()
        self._gone: dict[int, weakref.ref[Any]] = {}
        self._find_names = _FindNames(self._name_called)
        self._code: CodeType | None = None
        self._optimizers: dict[Any, int] = {}
        # Functions that were imported before this process may have been a rank.
        self._untold: list[tuple[int, str]] = []
        self.process = os.getpid()
        # With the GIL held, and without the time that it takes to give it back.
        self._calls = ctypes.PyDLL(None)
        self._memory: ModuleMemory | None = None

    def actions(self) -> dict[str, Callable[[ModuleType], None]]:
        """By module, what is to be done once it has been imported."""
        if not (self._run_dir / MODULES_FILE).exists():
            return {}
        return {
            "torch": self._watch_modules,
            "torch.autograd": self._watch_backward,
            "torch.optim.optimizer": self._watch_optimizers,
            "torch.nn.utils": self._watch_clipping,
        }

    # Modules

    def _watch_modules(self, torch: Any) -> None:
        self._calls.ph_called_module.restype = ctypes.c_void_p
        self._shim.ph_enter()
        try:
            self._follow(torch)
        finally:
            self._shim.ph_leave()

    def _follow(self, torch: Any) -> None:
        calls = self._calls
        self._code = torch.nn.Module.__call__.__code__
        # Nodes are numbered in each thread, and autograd evaluates them by their numbers: the
        # program's thread makes none here.
        places: list[int] = []
        thread = threading.Thread(target=lambda: places.extend(_node_fields(torch)))
        thread.start()
        thread.join()
        if not places or not self._calls.ph_follow_modules(
            ctypes.c_void_p(id(self._code)), self._find_names, *map(ctypes.c_size_t, places)
        ):
            _warn("the nodes of its autograd have another layout than those of the releases known")
            return

        class Probe(torch.nn.Module):  # type: ignore[misc]
            def forward(self) -> Any:
                return calls.ph_called_module()

        probe = Probe()
        if probe() != id(probe):
            self._calls.ph_follow_no_modules()
            _warn("this Python's frames have another layout than those of the releases known")
            return
        self._memory = ModuleMemory(self._shim, self._calls)

    def _name_called(self, _: object) -> int:
        """Gives paths to modules whose calls are under way, the outermost first, and tells them.

        The interpreter calls it on the main thread, when the shim has met a module.
        """
        if os.getpid() != self.process:
            return 0
        self._shim.ph_enter()
        try:
            told, self._untold = self._untold, []
            for called in self._called():
                outer = 0, ""
                for module in called:
                    if module not in self._paths:
                        self._name(module, *outer, told)
                    outer = self._paths[module]
            if told:
                self._shim.ph_statistics(json.dumps({"kind": "modules", "paths": told}).encode())
        finally:
            self._shim.ph_leave()
        return 0

    def _called(self) -> list[list[Any]]:
        """Of each thread, the outermost first. No frame is kept: that would be a cycle, and hold
        the program's tensors until Python looks for such.
        """
        threads = []
        frame: FrameType | None
        for frame in sys._current_frames().values():
            found = []
            while frame is not None:
                if frame.f_code is self._code:
                    found.append(frame.f_locals["self"])
                frame = frame.f_back  # noqa: PLW2901
            threads.append(found[::-1])
        return threads

    def _name(self, module: Any, outer: int, outer_path: str, told: list[tuple[int, str]]) -> None:
        """Gives paths to a module and all that it has: as "GPT.blocks.0.attention", from the class
        of the outermost module, without wrappers.
        """
        named = dict(module.named_modules())
        wrapped = {"", *(name for name in named if set(name.split(".")) <= _WRAPPERS)}
        root = next(one for name, one in reversed(named.items()) if name in wrapped)
        name_of_class = _class_name(type(root))
        first = f"{outer_path}.{name_of_class}" if outer_path else name_of_class
        numbers: dict[str, int] = {}
        for name, one in named.items():
            holder = name.rpartition(".")[0] if name else None
            inside = outer if holder is None else numbers.get(holder, 0)
            if one in self._paths:
                numbers[name] = self._paths[one][0]
                continue
            number = numbers[name] = self._calls.ph_module_number(ctypes.c_void_p(id(one)), inside)
            parts = [part for part in name.split(".") if part and part not in _WRAPPERS]
            self._paths[one] = number, ".".join([first, *parts])
            self._gone[id(one)] = weakref.ref(one, functools.partial(self._forget, id(one)))
            told.append(self._paths[one])

    def _forget(self, address: int, _: object) -> None:
        """Its address may become another's."""
        del self._gone[address]
        self._calls.ph_forget_module(ctypes.c_void_p(address))

    # Beside modules

    def _watch_backward(self, autograd: Any) -> None:
        for function in (autograd.backward, autograd.grad):
            self._tell_function(function, _BACKWARD)

    def _watch_optimizers(self, module: Any) -> None:
        def before(optimizer: Any, *_: Any) -> None:
            if not module.torch.compiler.is_compiling():
                self._go_beside(self._optimizer(type(optimizer)))

        def after(optimizer: Any, *_: Any) -> None:
            if not module.torch.compiler.is_compiling():
                self._go_beside(_OTHER)
                self._look_at_memory(optimizer)

        module.register_optimizer_step_pre_hook(before)
        module.register_optimizer_step_post_hook(after)

    def _look_at_memory(self, optimizer: Any = None) -> None:
        if self._memory is None or os.getpid() != self.process:
            return
        self._shim.ph_enter()
        try:
            if optimizer is not None:
                self._memory.add_optimizer(optimizer)
            self._memory.look(self._paths)
        finally:
            self._shim.ph_leave()

    def end(self) -> None:
        """At the interpreter's end: a program without optimizers has not told of its memory."""
        self._look_at_memory()

    def _watch_clipping(self, utils: Any) -> None:
        for function in (utils.clip_grad_norm_, utils.clip_grad_value_):
            number = self._number(function)
            self._untold.append((number, function.__name__))
            self._tell_function(function, number << _PHASE_BITS | _OPTIMIZER)

    def _tell_function(self, function: Any, scope: int) -> None:
        """Its frame is known by its code, as it is without what decorates it."""
        while hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        self._calls.ph_scope_of_function(ctypes.c_void_p(id(function.__code__)), scope)

    def _optimizer(self, kind: type) -> int:
        if kind not in self._optimizers:
            number = self._number(kind)
            self._optimizers[kind] = number << _PHASE_BITS | _OPTIMIZER
            told = {"kind": "modules", "paths": [[number, kind.__name__]]}
            self._shim.ph_statistics(json.dumps(told).encode())
        return self._optimizers[kind]

    def _number(self, what: Any) -> int:
        """`what`: a class or a function, which never goes."""
        return int(self._calls.ph_module_number(ctypes.c_void_p(id(what)), 0))

    def _go_beside(self, what: int) -> None:
        if os.getpid() != self.process:
            return
        self._calls.ph_enter()
        self._calls.ph_work_beside(what)
        self._calls.ph_leave()


def _class_name(kind: type) -> str:
    """`fully_shard` gives a module a class of its own, below the module's."""
    if kind.__bases__[0].__name__ == "FSDPModule":
        kind = kind.__bases__[1]
    return kind.__name__


def _node_fields(torch: Any) -> tuple[int, ...]:
    """Where nodes have the number of their making, and behind it that of the thread that made them;
    nothing: nobody knows.
    """
    one = torch.ones(1, requires_grad=True)
    nodes = [(one * 2).grad_fn, (one * 2).grad_fn]
    # The object of a node begins with Python's head and a pointer to it.
    starts = [ctypes.c_uint64.from_address(id(node) + object.__basicsize__).value for node in nodes]
    for place in _NODE_FIELDS:
        found = [ctypes.c_uint64.from_address(start + place).value for start in starts]
        if found == [node._sequence_nr() for node in nodes]:
            return place, place + 24
    return ()


def _warn(why: str) -> None:
    print(f"phantora: no GPU time by module (--modules): {why}", file=sys.stderr)
