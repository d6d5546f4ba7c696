"""What Triton's kernels do that machine code does not tell: how often their loops run, what they
load twice, and which memory they only read.

It stands in the code that Triton makes first (.ttir). While a kernel is loaded, the shim is told
how many bytes a block of it loads and stores, if all its loops have constant bounds, as Inductor's
have unless shapes are dynamic; and which of its parameters it only loads from.
"""

from __future__ import annotations

import ctypes
import functools
import math
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

_RUNTIME = "torch._inductor.runtime"
STATIC_LAUNCHERS = tuple(f"{_RUNTIME}.static_{kind}_launcher" for kind in ("cuda", "triton"))
"""Where PyTorch loads Inductor's kernels without Triton, by release."""
# What moves in other ways than by loads and stores, or as often as only the data says; products,
# whose time is not that of the memory.
_OTHER_WAYS = re.compile(r"\btt\.(atomic|call|descriptor|dot|gather|histogram)|\bscf\.while\b")
_CONSTANT = re.compile(r"(%\w+) = arith\.constant (-?\d+) : (?:i\d+|index)")
_LOOP = re.compile(r"scf\.for %\w+ = (%\w+) to (%\w+) step (%\w+)")
_BRANCH = re.compile(r"\bscf\.if\b|\belse\b")
_ACCESS = re.compile(
    r"tt\.(?P<what>load|store) (?P<pointer>%\w+).* : "
    r"(?:tensor<(?P<extents>(?:\d+x)+))?!tt\.ptr<(?P<type>\w+)>"
)
_MADE_OF = re.compile(r"(%\w+) = tt\.(?:addptr|bitcast|broadcast|expand_dims|splat) (%\w+)")
_PARAMETER = re.compile(r"(%\w+): (!tt\.ptr<)?")
# Code of which the pointers that it uses are not all seen: addresses made of numbers or found in
# memory, structures that stand for several parameters, other functions, instructions by hand.
_MORE_POINTERS = re.compile(
    r"int_to_ptr|ptr_to_int|ptr<!tt\.ptr|tensordesc|\btt\.call\b|inline_asm"
)
_MOST_PARAMETERS = 64  # a bit each
_NAME = re.compile(r"%\w+")
_RESULT = re.compile(r"^\s*(%\w+)(?::\d+)? = ")
_CARRIED = re.compile(r"(%\w+) = (%\w+)")
# Inductor's word at a load for what is read again later.
_KEPT = "evict_last"


class _Scope(NamedTuple):
    """Lines between braces. `loop`: the line of the innermost loop around them. `turns`: how often
    they run; not a number: the data decides.
    """

    loop: int
    turns: float


def block_bytes(code: str) -> int | None:
    """What a block loads and stores by its .ttir, in bytes; None where that is not constant.

    A loop's last turn has what the loop's end leaves of it. What is kept in the cache for a second
    look counts once; what all blocks of several load, as the weights of a norm, not at all.
    """
    if _OTHER_WAYS.search(code):
        return None
    constants = {name: int(value) for name, value in _CONSTANT.findall(code)}
    made_of = dict(_MADE_OF.findall(code))
    of_block = _names_of_block(code)
    scopes = [_Scope(0, 1.0)]
    kept_by: dict[str, tuple[int, str]] = {}
    total = 0.0
    for number, line in enumerate(code.splitlines()):
        if line.startswith("#"):  # where it was written, which may be any text
            continue
        loop, turns = scopes[-1]
        if (access := _ACCESS.search(line)) is not None:
            pointer = access["pointer"]
            kept_loop, kept_pointer = kept_by.get(_origin(pointer, made_of), (loop, ""))
            is_cached = kept_loop != loop or kept_pointer == pointer
            is_shared = bool(of_block) and of_block.isdisjoint(_NAME.findall(line))
            if access["what"] == "store" or not (is_cached or is_shared):
                total += turns * _bytes(access)
            if _KEPT in line:
                kept_by.setdefault(_origin(pointer, made_of), (loop, pointer))
        for brace in re.findall(r"[{}]", line):
            if brace == "{":
                scopes.append(scopes[-1])
            else:
                scopes.pop()
        if (bounds := _LOOP.search(line)) is not None:
            begin, end, step = (constants.get(name) for name in bounds.groups())
            if begin is None or end is None or not step:
                return None
            scopes[-1] = _Scope(number, turns * (end - begin) / step)
        elif _BRANCH.search(line) and line.rstrip().endswith("{"):
            scopes[-1] = _Scope(loop, math.nan)
    return None if math.isnan(total) else round(total)


def _names_of_block(code: str) -> set[str]:
    """Of values that depend on which block it is, or may: what loops carry and branches give. None
    where there is one block.
    """
    found: set[str] = set()
    if "tt.get_program_id" not in code:
        return found
    for line in code.splitlines():
        if "scf.for" in line or "scf.if" in line:
            carried = line.partition("iter_args(")[2]
            found.update(_RESULT.findall(line), (inner for inner, _ in _CARRIED.findall(carried)))
        elif "tt.get_program_id" in line or not found.isdisjoint(_NAME.findall(line)):
            found.update(_RESULT.findall(line))
    return found


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
    found = {number for number in root.values() if number < _MOST_PARAMETERS}
    for line in body.splitlines():
        if line.startswith("#"):
            continue
        used = [name for name in _NAME.findall(line) if name in root]
        if (made := _MADE_OF.search(line)) is not None and used == [made[2]]:
            root[made[1]] = root[made[2]]
        elif not ((access := _ACCESS.search(line)) and access["what"] == "load") or used != [
            access["pointer"]
        ]:
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
        read = sum(1 << number for number in only_read(code))
        shim.ph_state_code(ctypes.c_int64(block_bytes(code) or 0), ctypes.c_uint64(read))
        shim.ph_leave()
        try:
            load(kernel, *arguments)
        finally:
            shim.ph_state_code(ctypes.c_int64(0), ctypes.c_uint64(0))

    return load_and_tell


def _code_beside(kernel: Any) -> str | None:
    """Where PyTorch's caches have no more than the machine code there is none."""
    machine_code = getattr(kernel, "cubin_path", None)
    if machine_code is None:  # loaded already
        return None
    path = Path(machine_code).with_suffix(".ttir")
    return path.read_text() if path.is_file() else None


def _origin(pointer: str, made_of: dict[str, str]) -> str:
    while pointer in made_of:
        pointer = made_of[pointer]
    return pointer


def _bytes(access: re.Match[str]) -> float:
    extents = [int(one) for one in (access["extents"] or "").split("x") if one]
    bits = re.search(r"\d+", access["type"])
    return math.prod(extents) * max(1.0, int(bits[0]) / 8 if bits else 1.0)
