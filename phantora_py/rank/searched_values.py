"""Searches among values that nobody knows, where PyTorch reads back what its own kernels find.

It would find none, and refuse to go on: `mode` of a long line, and `isin` of many elements, which
counts different ones first. What is launched in their place sorts as they do
(docs/decisions/small-operations.md).
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .operators import Kernel
from .tensor_values import TensorValues, UnknownValueError

if TYPE_CHECKING:
    from .special_operations import Make

# Source: aten/src/ATen/native/cuda/TensorModeKernel.cpp: longer lines are sorted by thrust.
_LONGEST_IN_A_BLOCK = 2048


class SearchedValues:
    """The kernels of one process."""

    def __init__(self, torch: ModuleType, values: TensorValues) -> None:
        self._torch = torch
        self._values = values

    def kernels(self) -> dict[str, Make]:
        """By operator."""
        return {"mode": self._mode, "isin.Tensor_Tensor": self._isin}

    def _mode(self, make: Callable[[Kernel], Kernel], usual: Kernel) -> Kernel:
        """The least value is as often as any other."""
        by_values = make(usual)

        def mode(keys: Any, tensor: Any, dim: int = -1, keepdim: bool = False) -> Any:
            is_long = tensor.dim() > 0 and tensor.shape[dim] > _LONGEST_IN_A_BLOCK
            if not is_long or self._are_known(tensor):
                return by_values(keys, tensor, dim, keepdim)
            found = (one.narrow(dim, 0, 1).clone() for one in tensor.sort(dim))
            return tuple(one if keepdim else one.squeeze(dim) for one in found)

        return mode

    def _isin(self, make: Callable[[Kernel], Kernel], usual: Kernel) -> Kernel:
        """Elements that may be equal are taken to differ once they have been sorted."""
        by_values = make(usual)

        def isin(keys: Any, elements: Any, tests: Any, **options: Any) -> Any:
            if not options.get("assume_unique") and not self._are_known(elements, tests):
                elements.flatten().sort()
                options = {**options, "assume_unique": True}
            return by_values(keys, elements, tests, **options)

        return isin

    def _are_known(self, *tensors: Any) -> bool:
        try:
            with self._values.own_code():
                for one in tensors:
                    self._values.read(one)
        except UnknownValueError:
            return False
        return True
