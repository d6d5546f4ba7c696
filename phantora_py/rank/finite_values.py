"""Values that nobody knows are finite: what a program that checks for it is told.

It would otherwise read zeros, so that `isfinite` said no, and `x[~isnan(x)]` were empty
(docs/decisions/small-operations.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .operators import Kernel
from .tensor_values import TensorValues

if TYPE_CHECKING:
    from .special_operations import Make

# Whether a call asks of its first argument if that is finite. `isfinite` and `isinf` are made of
# comparisons. Source: aten/src/ATen/native/TensorCompare.cpp.
_Asks = Callable[..., bool]


def _of_itself(first: Any, second: Any) -> bool:
    return first is second


def _of_infinity(_: Any, number: Any) -> bool:
    return isinstance(number, float) and math.isinf(number)


_QUESTIONS: dict[str, tuple[_Asks, bool]] = {
    "isnan": (lambda _: True, False),
    "eq.Tensor": (_of_itself, True),
    "ne.Tensor": (_of_itself, False),
    "eq.Scalar": (_of_infinity, False),
    "ne.Scalar": (_of_infinity, True),
}
"""And what it is told, by operator."""


class FiniteValues:
    """The kernels of one process."""

    def __init__(self, torch: ModuleType, values: TensorValues) -> None:
        self._torch = torch
        self._values = values

    def kernels(self) -> dict[str, Make]:
        """By operator."""
        return {name: self._making(*question) for name, question in _QUESTIONS.items()}

    def _making(self, asks: _Asks, told: bool) -> Make:
        def make(make_usual: Callable[[Kernel], Kernel], usual: Kernel) -> Kernel:
            by_values = make_usual(usual)

            def kernel(keys: Any, *arguments: Any, **options: Any) -> Any:
                result = by_values(keys, *arguments, **options)
                if asks(*arguments) and self._is_unknown(arguments[0], result):
                    with self._values.own_code():
                        shape, dtype = result.shape, self._torch.bool
                        values = self._torch.full(shape, told, dtype=dtype, device="cpu")
                        self._values.write(result, values)
                    self._values.note_made_up(result.nbytes)
                return result

            return kernel

        return make

    def _is_unknown(self, tensor: Any, result: Any) -> bool:
        """Whether nobody knows the values, and there is somewhere to write what is assumed."""
        if not tensor.is_floating_point() or not tensor.numel():
            return False
        return self._values.is_small(result) and self._values.is_unknown(tensor)
