"""What grouped matrix products multiply.

PyTorch's kernel for Hopper and later gets its sizes from device memory, where a first kernel has
put them: no launch tells them. Owns the CUDA kernels of these operators, which state the sizes and
then start PyTorch's own. Decides no times.
"""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import Any

from .operators import Kernel, replaceable

OPERATORS = ("_grouped_mm", "_scaled_grouped_mm")
# Types of docs/records.md, by PyTorch's names.
TYPES = {
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
}
# m, n and k of each of so many groups, and the types of the operands.
Product = tuple[int, int, int, int, str, str]


class GroupedProducts:
    """The kernels of one process."""

    def __init__(self, torch: ModuleType, shim: ctypes.CDLL) -> None:
        self._shim = shim
        self._signatures: dict[Product, int] = {}
        self._operators = replaceable(torch, "CUDA")
        for name in OPERATORS:
            self._operators.replace(name, self._kernel)

    def _kernel(self, usual: Kernel) -> Kernel:
        def multiply(keys: Any, left: Any, right: Any, *arguments: Any, **options: Any) -> Any:
            offsets = [one for one in (*arguments, options.get("offs")) if is_offsets(one)]
            self._state(left, right, offsets[0].shape[0] if offsets else None)
            try:
                return usual(keys, left, right, *arguments, **options)
            finally:
                self._shim.ph_state_product(0)

        return multiply

    def _state(self, left: Any, right: Any, groups: int | None) -> None:
        told = product(left, right, groups)
        if told not in self._signatures:
            *sizes, left_type, right_type = told
            self._signatures[told] = self._shim.ph_product_signature(
                *map(ctypes.c_int64, sizes), left_type.encode(), right_type.encode()
            )
        self._shim.ph_state_product(self._signatures[told])


def is_offsets(argument: Any) -> bool:
    """Whether an argument is where the groups end. Scales are floating point."""
    return str(getattr(argument, "dtype", None)) == "torch.int32"


def product(left: Any, right: Any, groups: int | None) -> Product:
    """What is multiplied. `groups`: None if both operands have one matrix for each.

    The groups of a dimension that they share are taken to be of one size.
    """
    m, k, n = left.shape[-2], left.shape[-1], right.shape[-1]
    if not groups or left.dim() == right.dim() == 3:
        groups = left.shape[0]
    elif left.dim() == 3:
        n //= groups
    elif right.dim() == 3:
        m //= groups
    else:
        k //= groups
    left_type, right_type = (
        TYPES.get(str(one.dtype).removeprefix("torch."), "bf16") for one in (left, right)
    )
    return m, n, k, groups, left_type, right_type
