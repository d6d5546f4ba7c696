"""PyTorch's operators on small tensors, carried out on the CPU as well.

docs/decisions/small-operations.md has the rule. Owns the CUDA kernels of these operators: each
starts PyTorch's own, which takes the time, and then gives what it writes the values that PyTorch's
CPU kernel finds, if those of all inputs are known. Decides no times.
"""

from __future__ import annotations

import ctypes
import functools
from types import ModuleType
from typing import Any

from .expert_load import ExpertLoad
from .operator_choice import (
    carried_out,
    counts_itself,
    has_counted_result,
    places_of,
    places_values,
    promised_count,
)
from .operators import Kernel, overload, replaceable
from .random_operations import RandomOperations
from .special_operations import SpecialOperations
from .tensor_values import MOST_LIBRARY_BYTES, Inputs, TensorValues, UnknownValueError

# Beyond so many elements a tensor with gaps stays unknown: each is a range of its own.
MOST_SCATTERED = 8192
# What PyTorch says of a CPU kernel that does not take a type, and a type whose numbers hold those.
WIDER = {
    **dict.fromkeys(("Half", "BFloat16"), "float32"),
    **dict.fromkeys(("Bool", "Byte", "Char", "Short", "Int", "Long"), "float64"),
}
TYPES = {
    **{"Half": "float16", "BFloat16": "bfloat16", "Bool": "bool", "Byte": "uint8"},
    **{"Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64"},
}


@functools.cache
def small_operations(torch: ModuleType) -> SmallOperations:
    """Those of this process. It takes a third of a second, so ranks get them from the process that
    they are forked from.
    """
    return SmallOperations(torch)


class SmallOperations:
    """The kernels of one process and its children."""

    def __init__(self, torch: ModuleType) -> None:
        self._torch = torch
        self._values = TensorValues(torch)
        self._library_values = TensorValues(torch, MOST_LIBRARY_BYTES)
        self._operators = replaceable(torch, "CUDA")
        self._special = special = SpecialOperations(torch, self._values)
        self.statistics = special.statistics
        kernels = special.kernels()
        for name in carried_out(torch):
            make = kernels.pop(name, None)
            operator = overload(torch, name)
            ours = functools.partial(self._kernel, operator=operator)
            self._operators.replace(name, ours if make is None else functools.partial(make, ours))
        assert not kernels, kernels
        self._operators.replace("zero_", special.zero)
        self._operators.replace("resize_", special.resize)
        self._random = RandomOperations(torch, self._values)
        for name, draw in self._random.kernels().items():
            self._operators.replace(name, draw)
        self._libraries: list[Any] = []
        self._sparse_operators = replaceable(torch, "SparseCUDA")
        self._sparse_operators.replace("_coalesce", special.coalesce)

    def extend(self, namespace: str) -> None:
        """Carries out the operators of a library, too, which has been imported."""
        operators = replaceable(self._torch, "CUDA", namespace)
        for name in carried_out(self._torch, namespace):
            operator = overload(self._torch, name, namespace)
            operators.replace(
                name,
                functools.partial(self._kernel, operator=operator, values=self._library_values),
            )
        self._libraries.append(operators)

    def attach(self, shim: ctypes.CDLL, load: ExpertLoad) -> None:
        """Before the process uses a GPU."""
        self._values.attach(shim)
        self._library_values.attach(shim)
        self._special.attach(load)
        self._random.attach()

    def _kernel(self, usual: Kernel, operator: Any, values: TensorValues | None = None) -> Kernel:
        values = values or self._values
        is_capturing = self._torch.cuda.is_current_stream_capturing
        first_look = values.first_look
        kind = _Placed if places_values(operator) else _CarriedOut
        carry_out = kind(self._torch, values, operator)
        # A list that begins with what is not known is left to the shim's rules, which are quicker.
        is_list = operator.overloadpacket.__name__.startswith("_foreach_")
        places = places_of(operator)
        counts = counts_itself(self._torch, operator)

        def kernel(keys: Any, *arguments: Any, **options: Any) -> Any:
            inputs = first_look(arguments)
            is_left = inputs is Inputs.LEFT or (is_list and inputs is Inputs.UNKNOWN)
            is_exact = is_left and (counts or places) and self._are_plain(arguments)
            if is_exact and (counts or self._has_known_places(arguments, places)):
                inputs, is_left = Inputs.UNKNOWN, False
            if is_left or is_capturing():
                return usual(keys, *arguments, **options)
            if inputs is Inputs.UNKNOWN:
                return carry_out.launch_unknown(usual, keys, arguments, options)
            return carry_out(usual, keys, arguments, options)

        return kernel

    def _are_plain(self, arguments: Any) -> bool:
        flat = (
            part
            for one in arguments
            for part in (one if isinstance(one, (list, tuple)) else (one,))
        )
        tensors = self._torch.Tensor
        return all(self._values.is_plain(one) for one in flat if isinstance(one, tensors))

    def _has_known_places(self, arguments: Any, places: list[int]) -> bool:
        """Of an operator on large tensors: whether where it reads or writes in them may be known,
        which its kernel would make unknown.
        """
        tensors, values = self._torch.Tensor, self._values
        of_places = [arguments[at] for at in places if at < len(arguments)]
        return any(
            isinstance(one, tensors) and one.is_cuda and values.may_be_known(one)
            for given in of_places
            for one in (given if isinstance(given, (list, tuple)) else (given,))
        )


class _CarriedOut:
    """One operator on small tensors."""

    def __init__(self, torch: ModuleType, values: TensorValues, operator: Any) -> None:
        self._torch = torch
        self._values = values
        self._operator = operator
        self._has_counted_result = has_counted_result(torch, operator)
        self._counts_itself = counts_itself(torch, operator)
        schema = operator._schema
        self._names = [one.name for one in schema.arguments]
        self._results = {one.name for one in schema.arguments if one.is_out}
        self._written = [
            (at, one.name)
            for at, one in enumerate(schema.arguments)
            if one.alias_info and one.alias_info.is_write
        ]
        self._is_returned_new = [not one.alias_info for one in schema.returns]

    def __call__(self, usual: Kernel, keys: Any, arguments: Any, options: Any) -> Any:
        """Starts the usual kernel once, whatever is known."""
        found = None
        try:
            with self._values.own_code():
                inputs = self._inputs(arguments, options)
                if self._has_counted_result:
                    found = self._count_first(*inputs)
        except UnknownValueError:
            return self.launch_unknown(usual, keys, arguments, options)
        if self._has_counted_result:
            return self._launch_counted(usual, keys, (arguments, options), inputs, found)
        result = self._launch(usual, keys, arguments, options)
        with self._values.own_code():
            self._carry_out(arguments, options, result, *inputs)
        return result

    # The usual kernel

    def _launch(self, usual: Kernel, keys: Any, arguments: Any, options: Any) -> Any:
        """The caller says what is known of all that kernels write meanwhile."""
        state_writes = self._values.state_writes
        before = state_writes(1)
        try:
            return usual(keys, *arguments, **options)
        finally:
            state_writes(before)

    def launch_unknown(self, usual: Kernel, keys: Any, arguments: Any, options: Any) -> Any:
        """An input is not known, so what is written is not either."""
        if self._counts_itself:
            # What PyTorch reads back of its own results meanwhile is as unknown as they are.
            with self._values.unknown_reads():
                result = self._launch(usual, keys, arguments, options)
        else:
            result = self._launch(usual, keys, arguments, options)
        for one in self._tensors_written(arguments, options, result):
            self._values.forget(one)
        return result

    def _count_first(self, inputs: list[Any], named: dict[str, Any]) -> Any:
        """What the CPU finds. Raises: UnknownValueError"""
        if self._operator.overloadpacket.__name__ == "repeat_interleave":
            self._refuse_large(inputs[0].sum())
        return self._compute(inputs, named)

    def _launch_counted(
        self, usual: Kernel, keys: Any, given: tuple[Any, Any], inputs: Any, found: Any
    ) -> Any:
        """PyTorch reads back how large the result is: it finds what the CPU's is."""
        count = promised_count(self._operator, inputs[0], found)
        if count is None:
            result = self._launch(usual, keys, *given)
        else:
            with self._values.promised_reads(count):
                result = self._launch(usual, keys, *given)
        with self._values.own_code():
            result = self._with_shapes(result, found)
            self._write_all(given, result, found, inputs)
        return result

    def _with_shapes(self, result: Any, found: Any) -> Any:
        """`result` in the CPU's sizes, where PyTorch has read back something else."""
        if isinstance(result, (list, tuple)):
            return type(result)(
                self._with_shapes(*pair) for pair in zip(result, found, strict=True)
            )
        if result is None or found is None or result.shape == found.shape:
            return result
        if self._is_returned_new[0]:
            return self._torch.empty(found.shape, dtype=result.dtype, device=result.device)
        return result.resize_(found.shape)

    # On the CPU

    def _inputs(self, arguments: Any, options: Any) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with the values of tensors, those that are changed as copies.

        Raises: UnknownValueError
        """
        inputs = [self._input(name, one) for name, one in zip(self._names, arguments, strict=False)]
        return inputs, {name: self._input(name, one) for name, one in options.items()}

    def _input(self, name: str, argument: Any) -> Any:
        if isinstance(argument, (list, tuple)):
            return [self._input(name, one) for one in argument]
        if isinstance(argument, self._torch.device):
            return self._torch.device("cpu") if argument.type == "cuda" else argument
        if isinstance(argument, self._torch.Generator):
            raise UnknownValueError
        if isinstance(argument, self._torch.Tensor):
            return self._input_values(name, argument)
        return argument

    def _input_values(self, name: str, argument: Any) -> Any:
        if name in self._results:
            return self._torch.empty(0, dtype=argument.dtype, device="cpu")
        if argument.device.type != "cuda":
            return argument
        return self._values.read(argument)

    def _compute(self, inputs: list[Any], named: dict[str, Any]) -> Any:
        """Raises: UnknownValueError if the CPU cannot: the device may do something else then."""
        self._refuse_conversions(inputs, named)
        has_number = any(
            type(one) in (bool, int, float, complex) and str(expected.type) == "Tensor"
            for one, expected in zip(inputs, self._operator._schema.arguments, strict=False)
        )
        on_cpu = self._operator.overloadpacket if has_number else self._operator
        try:
            return on_cpu(*inputs, **named)
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            for name, wider in WIDER.items():
                if f"not implemented for '{name}'" in str(error):
                    return self._compute_wider(inputs, named, TYPES[name], wider)
            raise UnknownValueError from error

    def _refuse_conversions(self, inputs: list[Any], named: dict[str, Any]) -> None:
        """Of real numbers to integers that do not hold them: a GPU makes other ones of them.

        Raises: UnknownValueError
        """
        torch, dtype = self._torch, named.get("dtype")
        if dtype is None or dtype is torch.bool or dtype.is_floating_point or dtype.is_complex:
            return
        limits = torch.iinfo(dtype)
        for one in inputs:
            if isinstance(one, torch.Tensor) and one.is_floating_point():
                cut = one.trunc().to(torch.float64)
                if not bool(((cut >= limits.min) & (cut < float(limits.max) + 1)).all()):
                    raise UnknownValueError

    def _compute_wider(self, inputs: Any, named: Any, name: str, wider: str) -> Any:
        narrow, wide = getattr(self._torch, name), getattr(self._torch, wider)

        def widen(one: Any) -> Any:
            if isinstance(one, list):
                return [widen(part) for part in one]
            if isinstance(one, self._torch.Tensor) and one.dtype is narrow:
                return one.to(wide)
            return wide if one is narrow else one

        inputs[:] = widen(inputs)
        named.update({name: widen(one) for name, one in named.items()})
        try:
            return self._operator(*inputs, **named)
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            raise UnknownValueError from error

    # What is written

    def _carry_out(
        self, arguments: Any, options: Any, result: Any, inputs: Any, named: Any
    ) -> None:
        written = self._tensors_written(arguments, options, result)
        try:
            if not all(self._values.is_small(one) for one in written):
                raise UnknownValueError
            found = self._compute(inputs, named)
        except UnknownValueError:
            for one in written:
                self._values.forget(one)
        else:
            self._write_all((arguments, options), result, found, (inputs, named))

    def _write_all(self, given: Any, result: Any, found: Any, inputs: Any) -> None:
        (arguments, options), (positional, named) = given, inputs
        for at, name in self._written:
            if at < len(arguments):
                self._write(arguments[at], positional[at])
            elif name in options:
                self._write(options[name], named[name])
        for one, its_values in self._new_results(result, found):
            self._write(one, its_values)

    def _write(self, tensor: Any, values: Any) -> None:
        if isinstance(tensor, (list, tuple)):
            for one, its_values in zip(tensor, values, strict=True):
                self._write(one, its_values)
        elif isinstance(tensor, self._torch.Tensor) and tensor.device.type == "cuda":
            is_scattered = tensor.numel() > MOST_SCATTERED and not tensor.is_contiguous()
            if values is None or is_scattered:
                self._values.forget(tensor)
            else:
                self._values.write(tensor, values)

    def _new_results(self, result: Any, found: Any) -> list[tuple[Any, Any]]:
        if len(self._is_returned_new) == 1:
            return [(result, found)] if self._is_returned_new[0] else []
        return [
            (one, its_values)
            for one, its_values, is_new in zip(
                result or (), found or (), self._is_returned_new, strict=False
            )
            if is_new
        ]

    def _tensors_written(self, arguments: Any, options: Any, result: Any) -> list[Any]:
        written = [
            arguments[at] if at < len(arguments) else options.get(name)
            for at, name in self._written
        ]
        written += [one for one, _ in self._new_results(result, result)]
        return list(self._tensors(written))

    def _tensors(self, values: Any) -> Any:
        for one in values:
            if isinstance(one, (list, tuple)):
                yield from self._tensors(one)
            elif isinstance(one, self._torch.Tensor) and one.is_cuda:
                yield one

    def _refuse_large(self, count: Any) -> None:
        if int(count) * 8 > self._values.most_bytes:
            raise UnknownValueError


class _Placed(_CarriedOut):
    """An operator that puts values into places of a tensor. What it leaves there may be unknown."""

    def launch_unknown(self, usual: Kernel, keys: Any, arguments: Any, options: Any) -> Any:
        """An input is not known: if that is the tensor alone, what is put there is."""
        try:
            with self._values.own_code():
                placed = self._place(arguments, options)
        except UnknownValueError:
            return super().launch_unknown(usual, keys, arguments, options)
        result = self._launch(usual, keys, arguments, options)
        with self._values.own_code():
            self._values.write(arguments[0], *placed)
        return result

    def _place(self, arguments: Any, options: Any) -> tuple[Any, Any]:
        """What the tensor holds afterwards, and flags: of which elements that is known.

        Raises: UnknownValueError
        """
        torch, tensor = self._torch, arguments[0]
        given = {**dict(zip(self._names, arguments, strict=False)), **options}
        is_apt = self._values.is_plain(tensor) and self._values.is_small(tensor)
        if given.get("accumulate") or tensor.numel() == 0 or not is_apt:
            raise UnknownValueError
        others = [self._input(*one) for one in zip(self._names[1:], arguments[1:], strict=False)]
        named = {name: self._input(name, one) for name, one in options.items()}
        size_bytes = tensor.element_size()
        found = []
        for filler in (0, 1):  # The bytes of what is not known, which differ where it stays.
            shape = (*tensor.shape, size_bytes)
            values = torch.full(shape, filler, dtype=torch.uint8, device="cpu")
            values = values.view(tensor.dtype).squeeze(-1)
            self._values.read_known(tensor, values)
            inputs = [values, *others]
            self._compute(inputs, dict(named))
            found.append(inputs[0].to(tensor.dtype).contiguous())
        parts = [one.unsqueeze(-1).view(torch.uint8) for one in found]
        return found[0], (parts[0] == parts[1]).all(-1).contiguous()
