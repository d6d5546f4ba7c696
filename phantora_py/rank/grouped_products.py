"""What grouped matrix products multiply.

PyTorch's kernel for Hopper and later gets its sizes from device memory, where a first kernel has
put them: no launch tells them. Owns the CUDA kernels of these operators, which state the sizes and
then start PyTorch's own. Decides no times.
"""

from __future__ import annotations

import ctypes
import json
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


class GroupedProducts:
    """The kernels of one process."""

    def __init__(self, torch: ModuleType, shim: ctypes.CDLL) -> None:
        self._shim = shim
        self._signatures: dict[str, int] = {}
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
        text = signature(left, right, groups)
        if text not in self._signatures:
            self._signatures[text] = self._shim.ph_product_signature(text.encode())
        self._shim.ph_state_product(self._signatures[text])


def is_offsets(argument: Any) -> bool:
    """Whether an argument is where the groups end. Scales are floating point."""
    return str(getattr(argument, "dtype", None)) == "torch.int32"


def signature(left: Any, right: Any, groups: int | None) -> str:
    """The payload of docs/records.md. `groups`: None if both operands have one matrix for each.

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
    types = [TYPES.get(str(one.dtype).removeprefix("torch."), "bf16") for one in (left, right)]
    return json.dumps(
        {
            "kind": "gemm",
            "library": "cutlass",
            "grouped": True,
            **{"m": m, "n": n, "k": k, "batch": groups},
            **{"transa": "N", "transb": "N", "a": types[0], "b": types[1]},
            **{"c": "bf16", "d": "bf16", "compute": "f32", "epilogue": "none", "beta": False},
        }
    )
