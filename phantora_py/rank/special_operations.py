"""Operators of which more is known than their inputs' values.

docs/decisions/small-operations.md has the rule for each. Owns their CUDA kernels, and the counts of
routings that were made up.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .checked_values import CheckedValues
from .decided_results import DecidedResults
from .different_values import DifferentValues
from .expert_load import ExpertLoad, borders
from .finite_values import FiniteValues
from .operators import Kernel
from .searched_values import SearchedValues
from .tensor_values import TensorValues, UnknownValueError

# Given what makes the usual rule's kernel, and PyTorch's own kernel.
Make = Callable[[Callable[[Kernel], Kernel], Kernel], Kernel]


class SpecialOperations:
    """The kernels of one process."""

    def __init__(self, torch: ModuleType, values: TensorValues) -> None:
        self._torch = torch
        self._values = values
        self._routings: Counter[tuple[int, int, bool]] = Counter()

    def attach(self, load: ExpertLoad) -> None:
        """Before a kernel is called."""
        self._load = load

    def kernels(self) -> dict[str, Make]:
        """By operator."""
        return {
            "topk": self._topk,
            "argmax": self._argmax,
            "argmin": self._argmax,
            "_amp_foreach_non_finite_check_and_unscale_": self._check_finite,
            "_cummax_helper": self._running_extreme,
            "_cummin_helper": self._running_extreme,
            "linalg_eig": self._eigen,
            "_linalg_eigvals": self._eigen,
            **CheckedValues(self._torch, self._values).kernels(),
            **DecidedResults(self._torch, self._values).kernels(),
            **DifferentValues(self._torch, self._values).kernels(),
            **FiniteValues(self._torch, self._values).kernels(),
            **SearchedValues(self._torch, self._values).kernels(),
        }

    def coalesce(self, usual: Kernel) -> Kernel:
        """PyTorch reads back how many places the elements have: one each, where nobody knows."""

        def coalesce(keys: Any, tensor: Any) -> Any:
            places = self._known(tensor._indices())
            if places is None:
                count = tensor._nnz()
                self._values.note_made_up(4)
            else:
                with self._values.own_code():
                    count = self._torch.unique(places, dim=1).shape[1]
            with self._values.promised_reads(count):
                return usual(keys, tensor)

        return coalesce

    def zero(self, usual: Kernel) -> Kernel:
        """A large fill is left unknown, as its bytes have no type. Integers are kept."""
        torch = self._torch
        is_capturing = torch.cuda.is_current_stream_capturing

        def zero(keys: Any, tensor: Any) -> Any:
            result = usual(keys, tensor)
            if self._values.is_large_index(tensor) and not is_capturing():
                with self._values.own_code():
                    zeros = torch.zeros(tensor.shape, dtype=tensor.dtype, device="cpu")
                    self._values.write(tensor, zeros)
            return result

        return zero

    def resize(self, usual: Kernel) -> Kernel:
        """What a tensor grows by is new memory, where nobody has written: objects are padded so."""

        def resize(keys: Any, tensor: Any, *arguments: Any, **options: Any) -> Any:
            old_pointer, old_bytes = _memory(tensor)
            result = usual(keys, tensor, *arguments, **options)
            pointer, size_bytes = _memory(tensor)
            if pointer != old_pointer and size_bytes > old_bytes:
                self._values.mark_unwritten(pointer + old_bytes, size_bytes - old_bytes)
            return result

        return resize

    def _topk(self, make: Callable[[Kernel], Kernel], usual: Kernel) -> Kernel:
        """Of values that nobody knows the indices are made up, as the user says that experts are
        loaded.
        """
        by_values = make(usual)

        def topk(keys: Any, tensor: Any, k: int, dim: int = -1, *order: Any) -> Any:
            result = by_values(keys, tensor, k, dim, *order)
            if tensor.dim() == 0 or self._is_known(tensor):
                return result
            self._make_up(result[1], dim, tensor.shape[dim])
            return result

        return topk

    def _argmax(self, make: Callable[[Kernel], Kernel], usual: Kernel) -> Kernel:
        """Likewise: routers that choose one expert call it."""
        by_values = make(usual)

        def argmax(keys: Any, tensor: Any, dim: int | None = None, keepdim: bool = False) -> Any:
            result = by_values(keys, tensor, dim, keepdim)
            if tensor.dim() == 0 or self._is_known(tensor):
                return result
            if dim is None:
                self._make_up(result.view(1), 0, tensor.numel())
            else:
                one_each = result if keepdim else result.unsqueeze(dim)
                self._make_up(one_each, dim, tensor.shape[dim])
            return result

        return argmax

    def _make_up(self, indices: Any, dim: int, choices: int) -> None:
        """Indices of what was chosen along `dim`."""
        if self._torch.cuda.is_current_stream_capturing() or indices.numel() == 0:
            return
        if self._values.is_small(indices):
            with self._values.own_code():
                made_up = self._spread(indices, dim, choices)
                self._values.write(indices, made_up)
            self._values.note_made_up(made_up.nbytes)

    def _check_finite(self, make: Callable[[Kernel], Kernel], usual: Kernel) -> Kernel:
        """What nobody knows of gradients is finite: what was found before stays found."""
        by_values = make(usual)

        def check_finite(keys: Any, gradients: Any, found: Any, factor: Any) -> None:
            if all(self._is_known(one) for one in (factor, *gradients)):
                by_values(keys, gradients, found, factor)
                return
            before = self._known(found)
            if before is not None and any(self._holds_infinite(one) for one in gradients):
                before.fill_(1)
            stated = self._values.state_writes(1)
            try:
                usual(keys, gradients, found, factor)
            finally:
                self._values.state_writes(stated)
            with self._values.own_code():
                for gradient in gradients:
                    self._values.forget(gradient)
                if before is None:
                    self._values.forget(found)
                else:
                    self._values.write(found, before)

        return check_finite

    def _holds_infinite(self, tensor: Any) -> bool:
        """Whether one of the elements that are known is infinite or no number."""
        if self._torch.cuda.is_current_stream_capturing() or not self._values.is_plain(tensor):
            return False
        if not self._values.may_be_known(tensor):
            return False
        with self._values.own_code():
            values = self._torch.zeros(tensor.shape, dtype=tensor.dtype, device="cpu")
            self._values.read_known(tensor, values)
            return not bool(values.isfinite().all())

    def _running_extreme(self, make: Callable[[Kernel], Kernel], usual: Kernel) -> Kernel:
        """It writes all of two tensors that its schema has as changed. What they held before has no
        part in it, so it may be zeros.
        """
        by_values = make(usual)

        def running_extreme(keys: Any, tensor: Any, values: Any, indices: Any, dim: int) -> None:
            if self._is_known(tensor):
                zeros = self._torch.zeros
                with self._values.own_code():
                    for one in (values, indices):
                        before = zeros(one.shape, dtype=one.dtype, device="cpu")
                        self._values.write(one, before)
            by_values(keys, tensor, values, indices, dim)

        return running_extreme

    def _eigen(self, make: Callable[[Kernel], Kernel], usual: Kernel) -> Kernel:
        """PyTorch reads back a flag, whether all of the matrix is finite, and refuses it if not."""
        by_values = make(usual)

        def eigen(keys: Any, matrix: Any) -> Any:
            if self._is_known(matrix):
                return by_values(keys, matrix)
            with self._values.promised_reads(1, ctypes.c_bool):
                return usual(keys, matrix)

        return eigen

    def _known(self, tensor: Any) -> Any:
        """None: not known, as what a graph's launches will find."""
        if self._torch.cuda.is_current_stream_capturing():
            return None
        try:
            with self._values.own_code():
                return self._values.read(tensor)
        except UnknownValueError:
            return None

    def _is_known(self, tensor: Any) -> bool:
        return self._known(tensor) is not None

    def _spread(self, result: Any, dim: int, choices: int) -> Any:
        """Indices below `choices`, different ones along `dim`, as often as the load says; each as
        often as any other where it says nothing. Of more choices than are made, those in the middle
        of equal parts: a text's end is the first or the last of a vocabulary.
        """
        torch = self._torch
        lined = result.movedim(dim, -1).shape
        top = lined[-1]
        weights = None if self._load.is_uniform else self._load.of(choices)
        self._routings[choices, top, weights is not None or self._load.is_uniform] += 1
        indices = torch.arange(result.numel(), device="cpu")
        if weights is None and len(indices) < choices:
            indices = (2 * indices + 1) * choices // (2 * len(indices))
        elif weights is None:
            indices = indices.remainder_(choices)
        else:
            ends = torch.tensor(borders(weights, result.numel() // top, top), device="cpu")
            indices = torch.bucketize(indices, ends, right=True).view(top, -1).t()
        return indices.reshape(lined).movedim(-1, dim)

    def statistics(self) -> dict[str, Any]:
        """What docs/records.md says, once, at the end."""
        calls = [[*key, count] for key, count in self._routings.items()]
        return {"kind": "routing", "calls": calls}


def _memory(tensor: Any) -> tuple[int, int]:
    """Where it is, and how many bytes of it there are."""
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()
