"""Different values among those that nobody knows are taken to be one: `unique`.

PyTorch reads back how many there are. None would be wrong of any tensor with elements, and the
program, or PyTorch itself (`matrix_exp`), may not go on with none. One is what there is at least.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .operators import Kernel
from .tensor_values import TensorValues

if TYPE_CHECKING:
    from .special_operations import Make

# By operator, which of its arguments is the dimension along which slices are compared.
_DIMENSIONS = {
    **{"_unique": None, "_unique2": None, "unique_consecutive": 3},
    **{"unique_dim": 1, "unique_dim_consecutive": 1},
}


class DifferentValues:
    """The kernels of one process."""

    def __init__(self, torch: ModuleType, values: TensorValues) -> None:
        self._torch = torch
        self._values = values

    def kernels(self) -> dict[str, Make]:
        """By operator."""
        return {name: functools.partial(self._unique, at) for name, at in _DIMENSIONS.items()}

    def _unique(self, at: int | None, make: Callable[[Kernel], Kernel], usual: Kernel) -> Kernel:
        """All elements are that value, so that its count is theirs."""
        by_values = make(usual)

        def unique(keys: Any, *arguments: Any, **options: Any) -> Any:
            tensor = arguments[0]
            if tensor.numel() == 0 or not self._values.is_unknown(tensor):
                return by_values(keys, *arguments, **options)
            with self._values.made_up_size(1):
                result = by_values(keys, *arguments, **options)
            dim = None if at is None else dict(enumerate(arguments)).get(at, options.get("dim"))
            count = tensor.numel() if dim is None else tensor.shape[dim]
            for counts in result[2:]:
                self._write_count(counts, count)
            return result

        return unique

    def _write_count(self, counts: Any, count: int) -> None:
        if counts.numel() == 1:
            with self._values.own_code():
                self._values.write(counts, self._torch.tensor([count], device="cpu"))
            self._values.note_made_up(counts.nbytes)
