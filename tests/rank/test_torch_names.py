"""What the rank's hooks take from PyTorch by name is there in the installed release.

Hooks that a program does not need are not run by its training: an old release would lack a name of
theirs unnoticed.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
RANK = Path(__file__).parents[2] / "phantora_py" / "rank"
# Names of later releases. The hooks look for the first, and want the other only where that is.
SINCE = {"torch.library.get_kernel": (2, 9), "torch.utils.serialization": (2, 7)}
# What the hooks call modules of PyTorch that they are given.
MODULES = {
    ("self", "_torch"): ["torch"],
    ("c10d",): ["torch", "distributed", "distributed_c10d"],
}


def dotted(node: ast.Attribute) -> list[str]:
    """The parts of "torch.cuda.Event"; none if it begins with something else than a name."""
    parts: list[str] = []
    at: ast.expr = node
    while isinstance(at, ast.Attribute):
        parts.insert(0, at.attr)
        at = at.value
    return [at.id, *parts] if isinstance(at, ast.Name) else []


def names(text: str) -> Iterator[str]:
    """What a module takes from PyTorch: attributes, imports, modules that it waits for."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute():
                parts = dotted(node)
                for own, module in MODULES.items():
                    if tuple(parts[: len(own)]) == own:
                        parts = [*module, *parts[len(own) :]]
                if parts[:1] == ["torch"]:
                    yield ".".join(parts)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] == "torch":
                yield from (f"{module}.{one.name}" for one in node.names)
            case ast.Constant(value=str(value)) if re.fullmatch(r"torch(\.\w+)+", value):
                yield value


def is_there(name: str) -> bool:
    """Modules are imported on the way."""
    found: Any = importlib.import_module("torch")
    path = "torch"
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        if isinstance(getattr(type(found), part, None), property):
            return True  # Some can only be asked in a group.
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(path)
            except ModuleNotFoundError:
                return False
    return True


def test_names_are_found() -> None:
    """In all forms in which the hooks write them."""
    text = """
import torch
from torch.distributed import fsdp
class Hook:
    def act(self, c10d):
        after_import("torch.optim.optimizer", self._torch.cuda.Event)
        c10d.new_group(other.torch.no, "torch is", f().torch)
"""
    assert sorted(set(names(text))) == [
        "torch",
        "torch.cuda",
        "torch.cuda.Event",
        "torch.distributed.distributed_c10d.new_group",
        "torch.distributed.fsdp",
        "torch.optim.optimizer",
    ]


def test_the_installed_release_has_them() -> None:
    """All but those that came later."""
    release = tuple(map(int, importlib.import_module("torch").__version__.split(".")[:2]))
    used = {name for path in RANK.rglob("*.py") for name in names(path.read_text())}
    assert len(used) > 50
    lacking = {name for name in used if not is_there(name)}
    assert lacking == {name for name, since in SINCE.items() if release < since}
