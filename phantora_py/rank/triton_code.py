"""Tells the shim of Triton's kernels what their machine code does not say: what a block moves and
computes (triton_work.py), and which memory they only read.

It stands in the code that Triton makes first (.ttir), and is told while a kernel is loaded.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from .triton_work import MOST_PARAMETERS, BlockWork, block_work

_NOTHING = BlockWork()
_RUNTIME = "torch._inductor.runtime"
STATIC_LAUNCHERS = tuple(f"{_RUNTIME}.static_{kind}_launcher" for kind in ("cuda", "triton"))
"""Where PyTorch loads Inductor's kernels without Triton, by release."""
_LOAD = re.compile(r"tt\.load (%\w+)")
_MADE_OF = re.compile(r"(%\w+) = tt\.(?:addptr|bitcast|broadcast|expand_dims|splat) (%\w+)")
_PARAMETER = re.compile(r"(%\w+): (!tt\.ptr<)?")
# Code of which the pointers that it uses are not all seen: addresses made of numbers or found in
# memory, structures that stand for several parameters, other functions, instructions by hand.
_MORE_POINTERS = re.compile(
    r"int_to_ptr|ptr_to_int|ptr<!tt\.ptr|tensordesc|\btt\.call\b|inline_asm"
)
_NAME = re.compile(r"%\w+")


def only_read(code: str) -> list[int]:
    """Numbers of the parameters, pointers, that its .ttir does nothing with but load from them.

    Triton's kernels have the parameters of this code in its order, and others after them.
    """
    _, head, body = code.partition("tt.func ")
    if not head or "tt.func " in body or _MORE_POINTERS.search(code):
        return []
    head, _, body = body.partition("\n")
    parameters = _PARAMETER.findall(head)
    root = {name: number for number, (name, pointer) in enumerate(parameters) if pointer}
    found = {number for number in root.values() if number < MOST_PARAMETERS}
    for line in body.splitlines():
        if line.startswith("#"):
            continue
        used = [name for name in _NAME.findall(line) if name in root]
        if (made := _MADE_OF.search(line)) is not None and used == [made[2]]:
            root[made[1]] = root[made[2]]
        elif (load := _LOAD.search(line)) is None or used != [load[1]]:
            found.difference_update(root[name] for name in used)
    return sorted(found)


def tell_compiled(shim: ctypes.CDLL, compiler: ModuleType) -> None:
    """Of kernels that Triton loads. `compiler`: its module of compiled kernels."""
    kernel = compiler.CompiledKernel
    kernel._init_handles = _telling(shim, kernel._init_handles, lambda one: one.asm.get("ttir"))


def tell_static(shim: ctypes.CDLL, launcher: ModuleType) -> None:
    """Of kernels that PyTorch loads. `launcher`: one of STATIC_LAUNCHERS."""
    for kernel in list(vars(launcher).values()):
        if isinstance(kernel, type) and "load_kernel" in vars(kernel):
            loads: Any = kernel
            loads.load_kernel = _telling(shim, loads.load_kernel, _code_beside)


def _telling(
    shim: ctypes.CDLL, load: Callable[..., None], code_of: Callable[[Any], str | None]
) -> Callable[..., None]:
    @functools.wraps(load)
    def load_and_tell(kernel: Any, *arguments: Any) -> None:
        shim.ph_enter()
        code = code_of(kernel) or ""
        _state(shim, block_work(code) or _NOTHING, only_read(code))
        shim.ph_leave()
        try:
            load(kernel, *arguments)
        finally:
            _state(shim, _NOTHING, [])

    return load_and_tell


def _state(shim: ctypes.CDLL, work: BlockWork, read: list[int]) -> None:
    shim.ph_state_code(
        *(one.encode() for one in work),
        _bits(work.parameters),
        _bits(read),
    )


def _bits(numbers: Iterable[int]) -> ctypes.c_uint64:
    return ctypes.c_uint64(sum(1 << number for number in numbers))


def _code_beside(kernel: Any) -> str | None:
    """Where PyTorch's caches have no more than the machine code there is none."""
    machine_code = getattr(kernel, "cubin_path", None)
    if machine_code is None:  # loaded already
        return None
    path = Path(machine_code).with_suffix(".ttir")
    return path.read_text() if path.is_file() else None
