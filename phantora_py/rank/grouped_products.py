"""What grouped matrix products multiply.

PyTorch's kernel for Hopper and later gets its sizes from device memory, where a first kernel has
put them: no launch tells them. Owns the CUDA kernels of these operators, which state the sizes and
then start PyTorch's own: those of each group where it is known where the groups end. Where PyTorch
has no such kernel, it reads back where they end and multiplies group by group: if nobody knows it,
groups of one size, as the model of the kernel has them. Decides no times.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType
from typing import Any

from .operators import Kernel, replaceable
from .tensor_values import TensorValues, UnknownValueError

OPERATORS = ("_grouped_mm", "_scaled_grouped_mm")
# Types of docs/records.md, by PyTorch's names.
TYPES = {
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
}


@dataclass(frozen=True)
class Product:
    """m, n and k of a group, of the mean one in the extent `along` which they may differ."""

    m: int
    n: int
    k: int
    groups: int
    left_type: str
    right_type: str
    along: str = ""
    sizes: tuple[int, ...] = ()
    """Of the groups, the largest first; empty: nobody knows."""


class GroupedProducts:
    """The kernels of one process."""

    def __init__(self, torch: ModuleType, shim: ctypes.CDLL) -> None:
        self._shim = shim
        self._values = TensorValues(torch)
        self._values.attach(shim)
        self._is_capturing = torch.cuda.is_current_stream_capturing
        self._signatures: dict[Product, int] = {}
        self._operators = replaceable(torch, "CUDA")
        for name in operators(torch):
            self._operators.replace(name, self._kernel)

    def _kernel(self, usual: Kernel) -> Kernel:
        def multiply(keys: Any, left: Any, right: Any, *arguments: Any, **options: Any) -> Any:
            told = [one for one in (*arguments, options.get("offs")) if is_offsets(one)]
            offsets = told[0] if told else None
            ends = self._ends(offsets)
            self._state(product(left, right, offsets, ends))
            is_made_up = offsets is not None and not ends
            made_up = even_ends(left, right, offsets) if is_made_up else []
            try:
                with self._values.made_up_reads(made_up):
                    return usual(keys, left, right, *arguments, **options)
            finally:
                self._shim.ph_state_product(0)

        return multiply

    def _state(self, told: Product) -> None:
        if told not in self._signatures:
            sizes = (told.m, told.n, told.k, told.groups)
            self._signatures[told] = self._shim.ph_product_signature(
                *map(ctypes.c_int64, sizes),
                *(told.left_type.encode(), told.right_type.encode()),
                told.along.encode() if told.sizes else None,
                (ctypes.c_int64 * len(told.sizes))(*told.sizes),
            )
        self._shim.ph_state_product(self._signatures[told])

    def _ends(self, offsets: Any) -> list[int]:
        """Where the groups end, if that is known. A graph is launched with other values later."""
        if offsets is None or self._is_capturing():
            return []
        try:
            with self._values.own_code():
                ends: list[int] = self._values.read(offsets).tolist()
        except UnknownValueError:
            return []
        return ends


def operators(torch: ModuleType) -> list[str]:
    """Those that this release has: PyTorch got the first with 2.8 and the other with 2.7."""
    return [name for name in OPERATORS if hasattr(torch.ops.aten, name)]


def is_offsets(argument: Any) -> bool:
    """Whether an argument is where the groups end. Scales are floating point."""
    return str(getattr(argument, "dtype", None)) == "torch.int32"


def product(left: Any, right: Any, offsets: Any, ends: Sequence[int]) -> Product:
    """What is multiplied. `offsets`: None if both operands have one matrix for each; `ends`: its
    values, if they are known.
    """
    m, k, n = left.shape[-2], left.shape[-1], right.shape[-1]
    left_type, right_type = (
        TYPES.get(str(one.dtype).removeprefix("torch."), "bf16") for one in (left, right)
    )
    if offsets is None or left.dim() == right.dim() == 3:
        groups = left.shape[0]
        # All are of one size, which is known.
        return Product(m, n, k, groups, left_type, right_type, "m", (m,) * groups)
    groups, along = offsets.shape[0], varying_extent(left, right)
    sizes = {"m": m, "n": n, "k": k}
    sizes[along] //= groups
    return Product(
        **sizes,
        groups=groups,
        left_type=left_type,
        right_type=right_type,
        along=along,
        sizes=group_sizes(ends),
    )


def even_ends(left: Any, right: Any, offsets: Any) -> list[int]:
    """Where groups of one size end."""
    extents = {"m": left.shape[-2], "n": right.shape[-1], "k": left.shape[-1]}
    extent, groups = extents[varying_extent(left, right)], offsets.shape[0]
    return [extent * (group + 1) // groups for group in range(groups)]


def varying_extent(left: Any, right: Any) -> str:
    """Which of m, n and k groups that end somewhere may differ in."""
    if left.dim() == 3:
        return "n"
    return "m" if right.dim() == 3 else "k"


def group_sizes(ends: Sequence[int]) -> tuple[int, ...]:
    """From where groups end, the largest first; of ends that are out of order nothing is known."""
    sizes = [end - begin for begin, end in pairwise([0, *ends])]
    return tuple(sorted(sizes, reverse=True)) if min(sizes, default=0) >= 0 else ()
