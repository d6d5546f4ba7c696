"""Operations on small tensors that a program's course hangs on, carried out on the CPU as well.

docs/decisions/small-operations.md has the rule. Owns the CUDA kernels of these operations: each
starts PyTorch's own, which takes the time, and then gives the result the values that PyTorch's CPU
kernel finds, if those of all inputs are known. Decides no times.
"""

from __future__ import annotations

import ctypes
import functools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from .expert_load import ExpertLoad, borders
from .operators import Kernel, Operators

# Of integers and flags: the routing tables of experts are larger than what else programs read
# back. Assumed to be enough: 8 experts each for 64 Ki tokens.
MOST_INDEX_BYTES = 4 << 20

# Operations whose CPU kernel takes what the CUDA kernel takes, by operator and overload.
FUNCTIONS = (
    "aminmax",
    "bincount",
    "cumsum",
    "gather",
    "histc",
    "index.Tensor",
    "index_select",
    "masked_select",
    "max",
    "min",
    "nonzero",
    "repeat_interleave.Tensor",
    "scatter.src",
    "scatter.value",
    "searchsorted.Tensor",
    "sort.stable",
    "topk",
)
IN_PLACE = (
    "_amp_foreach_non_finite_check_and_unscale_",
    "_amp_update_scale_",
    "scatter_.src",
    "scatter_.value",
)
# Of matrices that nobody knows PyTorch asks first whether they are finite.
ASKING = ("linalg_eig", "_linalg_eigvals")


class SmallOperations:
    """The kernels of one process."""

    def __init__(self, torch: ModuleType, shim: ctypes.CDLL, load: ExpertLoad) -> None:
        self._torch = torch
        self._shim = shim
        self._load = load
        self._routings: Counter[tuple[int, int, bool]] = Counter()
        self._most_bytes = int(shim.ph_value_bytes())
        self._operators = Operators(torch, "CUDA")
        special = {
            "nonzero": self._nonzero,
            "topk": self._topk,
            "_amp_foreach_non_finite_check_and_unscale_": self._check_finite,
            "_amp_update_scale_": self._update_scale,
            "linalg_eig": self._eigen,
            "_linalg_eigvals": self._eigen,
        }
        for name in (*FUNCTIONS, *IN_PLACE, *ASKING):
            operator, _, overload = name.partition(".")
            on_cpu = getattr(getattr(torch.ops.aten, operator), overload or "default")
            make = special.get(name, self._in_place if name in IN_PLACE else self._function)
            self._operators.replace(name, functools.partial(make, on_cpu=on_cpu))
        self._sparse_operators = Operators(torch, "SparseCUDA")
        self._sparse_operators.replace("_coalesce", self._coalesce)

    # The kernels

    def _function(self, usual: Kernel, on_cpu: Kernel) -> Kernel:
        def function(keys: Any, *arguments: Any, **options: Any) -> Any:
            inputs = self._read(arguments)
            result = self._launch(usual, keys, *arguments, **options)
            if inputs is None:
                self._forget(result)
            else:
                self._write(result, self._compute(on_cpu, inputs, options))
            return result

        return function

    def _in_place(self, usual: Kernel, on_cpu: Kernel) -> Kernel:
        """The first argument is the result."""

        def in_place(keys: Any, tensor: Any, *arguments: Any, **options: Any) -> Any:
            inputs = self._read((tensor, *arguments))
            if inputs is None:
                return usual(keys, tensor, *arguments, **options)
            self._launch(usual, keys, tensor, *arguments, **options)
            self._write(tensor, self._compute(on_cpu, inputs, options))
            return tensor

        return in_place

    def _nonzero(self, usual: Kernel, on_cpu: Kernel) -> Kernel:
        """PyTorch reads the number of elements back before it makes the result."""

        def nonzero(keys: Any, tensor: Any) -> Any:
            inputs = self._read((tensor,))
            if inputs is None:
                with self._stated_writes(0):  # It may be part of an operation whose results are.
                    return usual(keys, tensor)
            values = self._compute(on_cpu, inputs, {})
            with self._promised_read(values.shape[0]):
                result = self._launch(usual, keys, tensor)
            self._write(result, values)
            return result

        return nonzero

    def _coalesce(self, usual: Kernel) -> Kernel:
        """PyTorch reads back how many places the elements have: one each, where nobody knows."""

        def coalesce(keys: Any, tensor: Any) -> Any:
            places = self._read((tensor._indices(),))
            if places is None:
                count = tensor._nnz()
                self._shim.ph_note_made_up(ctypes.c_uint64(4))
            else:
                unique = functools.partial(self._torch.unique, dim=1)
                count = self._compute(unique, places, {}).shape[1]
            with self._promised_read(count):
                return usual(keys, tensor)

        return coalesce

    def _topk(self, usual: Kernel, on_cpu: Kernel) -> Kernel:
        """Of values that nobody knows the indices are made up, as the user says that experts are
        loaded.
        """

        def topk(keys: Any, tensor: Any, k: int, dim: int = -1, *order: Any) -> Any:
            inputs = self._read((tensor, k, dim, *order))
            result = self._launch(usual, keys, tensor, k, dim, *order)
            if inputs is not None:
                self._write(result, self._compute(on_cpu, inputs, {}))
                return result
            self._forget(result)
            if tensor.dim() > 0 and self._is_small(result[1]):
                made_up = self._spread(result[1], dim, tensor.shape[dim])
                self._write(result[1], made_up)
                self._shim.ph_note_made_up(ctypes.c_uint64(made_up.nbytes))
            return result

        return topk

    def _check_finite(self, usual: Kernel, on_cpu: Kernel) -> Kernel:
        """Gradients that nobody knows are finite: what was found before stays found."""

        def check_finite(keys: Any, gradients: Any, found: Any, factor: Any) -> None:
            before = self._read((found,))
            usual(keys, gradients, found, factor)
            if before is not None:
                self._write(found, before[0])

        return check_finite

    def _eigen(self, usual: Kernel, on_cpu: Kernel) -> Kernel:
        """PyTorch reads back a flag, whether all of the matrix is finite, and refuses it if not."""

        def eigen(keys: Any, matrix: Any) -> Any:
            if self._read((matrix,)) is not None:
                return usual(keys, matrix)
            with self._promised_read(1, ctypes.c_bool):
                return usual(keys, matrix)

        return eigen

    def _update_scale(self, usual: Kernel, on_cpu: Kernel) -> Kernel:
        """Two tensors change."""

        def update_scale(keys: Any, scale: Any, steps: Any, found: Any, *factors: Any) -> Any:
            inputs = self._read((scale, steps, found, *factors))
            if inputs is None:
                return usual(keys, scale, steps, found, *factors)
            self._launch(usual, keys, scale, steps, found, *factors)
            self._compute(on_cpu, inputs, {})
            self._write(scale, inputs[0])
            self._write(steps, inputs[1])
            return scale

        return update_scale

    # Values

    @contextmanager
    def _promised_read(self, number: int, kind: Any = ctypes.c_int32) -> Iterator[None]:
        """What PyTorch reads back of so many bytes meanwhile is `number`."""
        value = kind(number)
        size_bytes = ctypes.c_uint64(ctypes.sizeof(value))
        self._shim.ph_promise_read(ctypes.byref(value), size_bytes)
        try:
            yield
        finally:
            self._shim.ph_promise_read(None, ctypes.c_uint64(0))

    def _launch(self, usual: Kernel, *arguments: Any, **options: Any) -> Any:
        """Starts PyTorch's own kernels. The caller says what is known of all they write."""
        with self._stated_writes(1):
            return usual(*arguments, **options)

    @contextmanager
    def _stated_writes(self, stated: int) -> Iterator[None]:
        before = self._shim.ph_state_writes(stated)
        try:
            yield
        finally:
            self._shim.ph_state_writes(before)

    def _is_small(self, tensor: Any) -> bool:
        is_index = not (tensor.is_floating_point() or tensor.is_complex())
        most_bytes = max(self._most_bytes, MOST_INDEX_BYTES if is_index else 0)
        return bool(0 < tensor.nbytes <= most_bytes)

    def _read(self, arguments: Any) -> list[Any] | None:
        """`arguments` with the tensors' values on the CPU; None if one of them is not known, as
        those that a graph's launches will find.
        """
        if self._torch.cuda.is_current_stream_capturing():
            return None
        self._shim.ph_enter()
        try:
            return self._all_read(arguments)
        finally:
            self._shim.ph_leave()

    def _all_read(self, arguments: Any) -> list[Any] | None:
        read: list[Any] = []
        for argument in arguments:
            value = argument
            if isinstance(argument, (list, tuple)):
                value = self._all_read(argument)
            elif isinstance(argument, self._torch.Tensor) and argument.device.type == "cuda":
                value = self._values_of(argument)
            if value is None and argument is not None:
                return None
            read.append(value)
        return read

    def _values_of(self, tensor: Any) -> Any:
        if tensor.numel() == 0:
            return self._torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
        if not self._is_small(tensor):
            return None
        values = self._torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
        numbers = ctypes.c_int64 * tensor.dim()
        known = self._shim.ph_read_values(
            ctypes.c_void_p(tensor.data_ptr()),
            ctypes.c_uint64(tensor.element_size()),
            ctypes.c_uint64(tensor.dim()),
            numbers(*tensor.shape),
            numbers(*tensor.stride()),
            ctypes.c_void_p(values.data_ptr()),
        )
        return values if known else None

    def _compute(self, on_cpu: Kernel, inputs: list[Any], options: dict[str, Any]) -> Any:
        self._shim.ph_enter()
        try:
            return on_cpu(*inputs, **options)
        finally:
            self._shim.ph_leave()

    def _write(self, result: Any, values: Any) -> None:
        """Large values, and those of a result that is not dense, stay unknown."""
        if isinstance(result, (list, tuple)):
            for one, its_values in zip(result, values, strict=True):
                self._write(one, its_values)
        elif not (result.is_contiguous() and self._is_small(result)):
            self._forget(result)
        else:
            self._shim.ph_enter()
            values = values.to(result.dtype).contiguous()
            self._shim.ph_write_values(
                ctypes.c_void_p(result.data_ptr()),
                ctypes.c_void_p(values.data_ptr()),
                ctypes.c_uint64(result.nbytes),
            )
            self._shim.ph_leave()

    def _forget(self, result: Any) -> None:
        if isinstance(result, (list, tuple)):
            for one in result:
                self._forget(one)
        elif result.numel():
            last = sum(
                (n - 1) * step for n, step in zip(result.shape, result.stride(), strict=True)
            )
            extent = ctypes.c_uint64((last + 1) * result.element_size())
            self._shim.ph_mark_unknown(ctypes.c_void_p(result.data_ptr()), extent)

    def _spread(self, result: Any, dim: int, choices: int) -> Any:
        """Indices below `choices`, different ones along `dim`, as often as the load says; each as
        often as any other where it says nothing.
        """
        torch = self._torch
        self._shim.ph_enter()
        try:
            lined = result.movedim(dim, -1).shape
            top = lined[-1]
            weights = None if self._load.is_uniform else self._load.of(choices)
            self._routings[choices, top, weights is not None or self._load.is_uniform] += 1
            indices = torch.arange(result.numel(), device="cpu")
            if weights is None:
                indices = indices.remainder_(choices)
            else:
                ends = torch.tensor(borders(weights, result.numel() // top, top), device="cpu")
                indices = torch.bucketize(indices, ends, right=True).view(top, -1).t()
            return indices.reshape(lined).movedim(-1, dim)
        finally:
            self._shim.ph_leave()

    def statistics(self) -> dict[str, Any]:
        """What docs/records.md says, once, at the end."""
        calls = [[*key, count] for key, count in self._routings.items()]
        return {"kind": "routing", "calls": calls}
