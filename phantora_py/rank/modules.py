"""Marks for which `nn.Module`, and in which phase, a rank's work is issued.

Modules are seen by PyTorch's public global hooks, their backward passes by hooks before the
autograd nodes of what they take and give. Only with `--modules`. The standard library only: ranks
import it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from .recomputation import Recomputation

MODULES_FILE = "modules"
# Attributes in which wrappers of PyTorch, DeepSpeed and others keep the module that they wrap.
_WRAPPERS = {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
_MARK = "phantora_module"
# What a module takes and gives is looked for in containers so deep.
_DEEPEST = 4

_Scope = tuple[str, str]
"""Phase, and the module's path; "" outside all modules."""
_OTHER: _Scope = ("other", "")
# From the end of a model's call to the backward pass: the loss.
_LOSS: _Scope = ("forward", "")


class Modules:
    """The hooks of one rank's process."""

    def __init__(self, shim: ctypes.CDLL, run_dir: Path, recomputation: Recomputation) -> None:
        self._shim = shim
        self._run_dir = run_dir
        self._recomputation = recomputation
        self._paths: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._local = threading.local()
        self._now = self._told = _OTHER
        self._backward_depth = 0
        self.process = os.getpid()

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

    def _watch_modules(self, torch: Any) -> None:
        # A compiled call traces the hooks; not to break the graph, they leave no mark there.
        def before(module: Any, inputs: Any) -> None:
            if not torch.compiler.is_compiling():
                self._enter(torch, module, inputs)

        def after(_module: Any, _inputs: Any, outputs: Any) -> None:
            if not torch.compiler.is_compiling():
                self._leave(torch, outputs)

        torch.nn.modules.module.register_module_forward_pre_hook(before)
        torch.nn.modules.module.register_module_forward_hook(after, always_call=True)
        warnings.filterwarnings(
            "ignore", message="Using `torch.compile\\(module\\)` when there are global hooks"
        )

    def _watch_backward(self, autograd: Any) -> None:
        for name in ("backward", "grad"):
            setattr(autograd, name, self._within_backward(getattr(autograd, name)))

    def _within_backward(self, usual: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(usual)
        def backward(*arguments: Any, **options: Any) -> Any:
            before = self._now
            self._backward_depth += 1
            # Its first node may belong to a module, whose hook says so.
            self._say(("backward", ""))
            try:
                return usual(*arguments, **options)
            finally:
                self._backward_depth -= 1
                self._say(_OTHER if before == _LOSS else before)

        return backward

    def _watch_optimizers(self, module: Any) -> None:
        def before(optimizer: Any, *_: Any) -> None:
            if not module.torch.compiler.is_compiling():
                self._say(("optimizer", type(optimizer).__name__))

        def after(*_: Any) -> None:
            if not module.torch.compiler.is_compiling():
                self._say(_OTHER)

        module.register_optimizer_step_pre_hook(before)
        module.register_optimizer_step_post_hook(after)

    def _watch_clipping(self, utils: Any) -> None:
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            setattr(utils, name, self._as_optimizer(name, getattr(utils, name)))

    def _as_optimizer(self, name: str, usual: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(usual)
        def clip(*arguments: Any, **options: Any) -> Any:
            before = self._now
            self._say(("optimizer", name))
            try:
                return usual(*arguments, **options)
            finally:
                self._say(before)

        return clip

    # Of a module's call

    def _enter(self, torch: Any, module: Any, inputs: Any) -> None:
        if not self._is_own:
            return
        with self._apart():
            stack = self._stack
            outer = stack[-1][1][1] if stack else ""
            path = self._path(module, outer)
            self._mark_nodes(torch, inputs, outer)
            scope = self._phase, path
            stack.append((self._now, scope))
            self._tell(scope)

    def _leave(self, torch: Any, outputs: Any) -> None:
        stack = self._stack
        if not self._is_own or not stack:
            return
        with self._apart():
            before, (_, path) = stack.pop()
            has_gradient = self._mark_nodes(torch, outputs, path)
            self._tell(_LOSS if before == _OTHER and has_gradient else before)

    def _path(self, module: Any, outer: str) -> str:
        """As "GPT.blocks.0.attention": from the class of the outermost module, without wrappers."""
        if module not in self._paths:
            self._name(module, outer)
        return self._paths[module]

    def _name(self, module: Any, outer: str) -> None:
        """Gives names to a module and all that it has."""
        named = list(module.named_modules())
        wrapped = {"", *(name for name, _ in named if set(name.split(".")) <= _WRAPPERS)}
        root = next(one for name, one in reversed(named) if name in wrapped)
        first = f"{outer}.{type(root).__name__}" if outer else type(root).__name__
        for name, one in named:
            parts = [part for part in name.split(".") if part and part not in _WRAPPERS]
            if one is module or one not in self._paths:
                self._paths[one] = ".".join([first, *parts])

    @property
    def _phase(self) -> str:
        if self._recomputation.is_under_way or self._backward_depth:
            return "recomputation"
        return "forward"

    @property
    def _stack(self) -> list[tuple[_Scope, _Scope]]:
        """Of this thread, for each module whose call is under way: what was before, and its own."""
        stack: list[tuple[_Scope, _Scope]] | None = getattr(self._local, "stack", None)
        if stack is None:
            stack = self._local.stack = []
        return stack

    # Of backward passes

    def _mark_nodes(self, torch: Any, values: Any, path: str) -> bool:
        """When autograd comes to the node that made a tensor, work of `path` begins. Returns
        whether a tensor has a gradient.

        The first who knows a node keeps it: an inner module gives its result to the outer one.
        """
        has_gradient = False
        for tensor in _tensors(torch, values, _DEEPEST):
            has_gradient = True
            node = tensor.grad_fn
            if node is None or _MARK in node.metadata:
                continue
            node.metadata[_MARK] = True
            node.register_prehook(functools.partial(self._begin_backward, path))
        return has_gradient

    def _begin_backward(self, path: str, _gradients: Any) -> None:
        if not self._recomputation.is_under_way:
            self._say(("backward", path))

    # Of marks

    @property
    def _is_own(self) -> bool:
        return os.getpid() == self.process

    def _say(self, scope: _Scope) -> None:
        if self._is_own:
            with self._apart():
                self._tell(scope)

    @contextlib.contextmanager
    def _apart(self) -> Iterator[None]:
        """The time of what is done in it is not the program's."""
        self._shim.ph_enter()
        try:
            yield
        finally:
            self._shim.ph_leave()

    def _tell(self, scope: _Scope) -> None:
        self._now = scope
        if scope != self._told:
            self._told = scope
            mark = {"kind": "module", "phase": scope[0], "path": scope[1]}
            self._shim.ph_statistics(json.dumps(mark).encode())


def _tensors(torch: Any, values: Any, deepest: int) -> Iterator[Any]:
    """Those with a gradient."""
    if isinstance(values, torch.Tensor):
        if values.requires_grad:
            yield values
    elif deepest and isinstance(values, (tuple, list, dict)):
        for value in values.values() if isinstance(values, dict) else values:
            yield from _tensors(torch, value, deepest - 1)
