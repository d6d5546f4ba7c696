"""A check that is made of all elements holds, where nobody knows them: `(x >= 0).all()`.

It would otherwise read as zero, so that `assert` ended the program. `any` reads as zero as well,
which says the same of the opposite, and so does one flag that is compared with another
(docs/decisions/small-operations.md).
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .operators import Kernel
from .tensor_values import TensorValues

if TYPE_CHECKING:
    from .special_operations import Make


class CheckedValues:
    """The kernels of one process."""

    def __init__(self, torch: ModuleType, values: TensorValues) -> None:
        self._torch = torch
        self._values = values
        self._decides = True

    def kernels(self) -> dict[str, Make]:
        """By operator. Along one dimension flags select elements: those stay unknown."""
        return {"all": self._all, "equal": self._equal}

    def _all(self, make: Callable[[Kernel], Kernel], usual: Kernel) -> Kernel:
        by_values = make(usual)

        def all_of(keys: Any, tensor: Any) -> Any:
            result = by_values(keys, tensor)
            is_check = self._decides and tensor.dtype is self._torch.bool
            if is_check and self._values.is_unknown(result):
                told = self._holds_of_known(tensor)
                with self._values.own_code():
                    self._values.write(result, self._torch.tensor(told, device="cpu"))
                if told:
                    self._values.note_made_up(result.nbytes)
            return result

        return all_of

    def _equal(self, make: Callable[[Kernel], Kernel], usual: Kernel) -> Kernel:
        """It asks for `all` of a comparison. PyTorch itself asks so whether one flag is set, which
        means that something is wrong: `istft` refuses windows.
        """
        by_values = make(usual)

        def equal(keys: Any, one: Any, other: Any) -> Any:
            is_flag = one.dim() == 0 and one.dtype is self._torch.bool
            self._decides = not is_flag
            try:
                return by_values(keys, one, other)
            finally:
                self._decides = True

        return equal

    def _holds_of_known(self, flags: Any) -> bool:
        """One flag that is known and not set decides."""
        if not self._values.is_plain(flags) or not self._values.may_be_known(flags):
            return True
        with self._values.own_code():
            known = self._torch.ones(flags.shape, dtype=flags.dtype, device="cpu")
            self._values.read_known(flags, known)
            return bool(known.all())
