"""Results that one operand decides alone, whatever the other one holds: `x | True`, `x & 0`.

A loop that ends after so many turns, or once all values say so, ends by such a result: the lengths
of generated texts do (docs/decisions/small-operations.md).
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .operators import Kernel
from .tensor_values import TensorValues, UnknownValueError

if TYPE_CHECKING:
    from .special_operations import Make

# Whether operands in the result's type decide all of it; flags and integers only.
_Decides = Callable[[Any], Any]
_BITWISE: dict[str, _Decides] = {
    "bitwise_and": lambda values: values == 0,
    "bitwise_or": lambda values: ~values == 0,
}
_LOGICAL: dict[str, _Decides] = {
    "logical_and": lambda values: values == 0,
    "logical_or": lambda values: values != 0,
}


class DecidedResults:
    """The kernels of one process."""

    def __init__(self, torch: ModuleType, values: TensorValues) -> None:
        self._torch = torch
        self._values = values

    def kernels(self) -> dict[str, Make]:
        """By operator."""
        made: dict[str, Make] = {}
        for name, decides in _BITWISE.items():
            for one in (f"{name}.Tensor", f"{name}.Tensor_out", f"{name}_.Tensor"):
                made[one] = self._making(name, decides, is_logical=False)
        for name, decides in _LOGICAL.items():
            made[f"{name}.out"] = self._making(name, decides, is_logical=True)
        return made

    def _making(self, name: str, decides: _Decides, *, is_logical: bool) -> Make:
        on_cpu = getattr(self._torch, name)
        is_capturing = self._torch.cuda.is_current_stream_capturing

        def make(make_usual: Callable[[Kernel], Kernel], usual: Kernel) -> Kernel:
            by_values = make_usual(usual)

            def kernel(keys: Any, first: Any, second: Any, **options: Any) -> Any:
                if is_capturing():
                    return by_values(keys, first, second, **options)
                # One that is changed in place is not known any more afterwards.
                known = [self._known(first), self._known(second)]
                result = by_values(keys, first, second, **options)
                if (known[0] is None) != (known[1] is None):
                    of_result = None if is_logical else result.dtype
                    self._decide(result, known, on_cpu, decides, of_result)
                return result

            return kernel

        return make

    def _decide(
        self, result: Any, known: list[Any], on_cpu: Any, decides: _Decides, dtype: Any
    ) -> None:
        """`known`: the operands' values, one of them None."""
        (values,) = (one for one in known if one is not None)
        with self._values.own_code():
            if bool(decides(values if dtype is None else values.to(dtype)).all()):
                alone = on_cpu(values, values)  # As with any other.
                self._values.write(result, alone.expand(result.shape))

    def _known(self, operand: Any) -> Any:
        """The values; None: not known."""
        if not isinstance(operand, self._torch.Tensor):
            return None
        if operand.is_cpu:
            return operand
        try:
            with self._values.own_code():
                return self._values.read(operand)
        except UnknownValueError:
            return None
