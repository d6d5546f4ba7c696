"""PyTorch's own kernels, and ours in their place. Imports the standard library only."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

Kernel = Callable[..., Any]
_NUMBERS = (bool, int, float, complex)


class Operators:
    """The kernels of one device that this process replaces, of PyTorch since 2.9.

    Raises: OSError if this release does not hand out its own.
    """

    def __init__(self, torch: ModuleType, device: str, namespace: str = "aten") -> None:
        if not hasattr(torch.library, "get_kernel"):
            raise OSError(f"PyTorch {torch.__version__} does not tell the kernels that we replace")
        self._torch = torch
        self._get_kernel = torch.library.get_kernel
        self._namespace = namespace
        self._library = torch.library.Library(namespace, "IMPL")
        self._device = device

    def replace(self, name: str, make: Callable[[Kernel], Kernel]) -> None:
        """Registers what `make` makes of the usual kernel, which may be one of ours. It gets the
        dispatch keys first, which the usual one wants too.
        """
        usual = self._get_kernel(f"{self._namespace}::{name}", self._device).call_boxed
        operator = overload(self._torch, name, self._namespace)
        if takes_numbers(operator):
            usual = taking_numbers(self._torch, operator, usual)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some releases warn of what we want
            options = {"with_keyset": True, "allow_override": True}
            self._library.impl(name, kernel_of(make(usual)), self._device, **options)


class SelectedOperators:
    """The same for PyTorch before 2.9, and any device.

    The kernels have the dispatch key BackendSelect, which is the last one before the devices' own:
    so the usual kernel is the one that a call finds without that key. Operators that get numbers
    where their schema has tensors stay as they are, because such a call cannot be repeated.
    """

    def __init__(self, torch: ModuleType, device: str, namespace: str = "aten") -> None:
        self._torch = torch
        self._namespace = namespace
        self._library = torch.library.Library(namespace, "IMPL")
        key = torch._C.DispatchKey
        self._device = getattr(key, device)
        self._below = torch._C._dispatch_keyset_full_after(key.BackendSelect)

    def replace(self, name: str, make: Callable[[Kernel], Kernel]) -> None:
        """See Operators.replace."""
        operator = overload(self._torch, name, self._namespace)
        if takes_numbers(operator):
            return
        redispatch, below, device = operator.redispatch, self._below, self._device
        # What makes a tensor of numbers alone has no device's key yet: PyTorch's own kernel at this
        # key, which ours replaces, finds it.
        adds_device = not any("Tensor" in str(one.type) for one in operator._schema.arguments)

        def usual(keys: Any, *arguments: Any, **options: Any) -> Any:
            return redispatch(keys & below, *arguments, **options)

        ours = make(usual)

        def kernel(keys: Any, *arguments: Any, **options: Any) -> Any:
            if adds_device:
                keys = keys.add(self._key_of(options.get("device")))
            kernel = ours if keys.has(device) else usual
            return kernel(keys, *arguments, **options)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._library.impl(name, kernel_of(kernel), "BackendSelect", with_keyset=True)

    def _key_of(self, device: Any) -> Any:
        """The dispatch key of a new tensor's device."""
        kind = "cpu" if device is None else self._torch.device(device).type
        name: str = self._torch._C._dispatch_key_for_device(kind)
        return getattr(self._torch._C.DispatchKey, name)


def replaceable(
    torch: ModuleType, device: str, namespace: str = "aten"
) -> Operators | SelectedOperators:
    """The way in which this release's kernels can be replaced."""
    has_kernels = hasattr(torch.library, "get_kernel")
    return (Operators if has_kernels else SelectedOperators)(torch, device, namespace)


def kernel_of(ours: Kernel) -> Kernel:
    """`ours` as PyTorch calls it. Host time knows this function by its name: PyTorch gives every
    tensor to Python for it, which its own kernel does not need (csrc/shim/counting).
    """

    def in_its_place(*arguments: Any, **options: Any) -> Any:
        return ours(*arguments, **options)

    return in_its_place


def overload(torch: ModuleType, name: str, namespace: str = "aten") -> Any:
    """The operator "index.Tensor", "nonzero"."""
    packet, _, its_overload = name.partition(".")
    operators = getattr(torch.ops, namespace)
    return getattr(getattr(operators, packet), its_overload or "default")


def takes_numbers(operator: Any) -> bool:
    """Whether a kernel may get a number where the schema has a tensor: the operator has another
    overload with a number there, whose kernel makes it a tensor that counts as a number.
    """
    tensors = {one.name for one in operator._schema.arguments if str(one.type) == "Tensor"}
    packet = operator.overloadpacket
    if packet.__name__ in ("searchsorted", "bucketize"):
        return False  # Their overload has a kernel of its own.
    numbers = {
        one.name
        for name in packet.overloads()
        for one in getattr(packet, name)._schema.arguments
        if str(one.type) == "number"
    }
    return bool(tensors & numbers)


def number_tensor(torch: ModuleType, number: Any, dtype: Any) -> Any:
    """A tensor of a number, of which no profiler and no trace hears: the program did not ask."""
    torch.autograd._enable_record_function(False)
    try:
        return torch.scalar_tensor(number, dtype=dtype, device="cpu")
    finally:
        torch.autograd._enable_record_function(True)


def taking_numbers(torch: ModuleType, operator: Any, usual: Kernel) -> Kernel:
    """`usual` with a tensor of the same effect on the result's type for each such number."""
    schema = operator._schema.arguments
    places = [at for at, one in enumerate(schema) if str(one.type) == "Tensor" and not one.is_out]
    # A condition has no part in the result's type.
    typed = places[1:] if operator.overloadpacket.__name__ == "where" else places

    def kernel(keys: Any, *arguments: Any, **options: Any) -> Any:
        numbers = [at for at in places if at < len(arguments) and type(arguments[at]) in _NUMBERS]
        if numbers:
            others = [arguments[at] for at in typed if at not in numbers and at < len(arguments)]
            given = list(arguments)
            for at in numbers:
                dtype = torch.result_type(others[0] if others else given[at], given[at])
                given[at] = number_tensor(torch, given[at], dtype)
            return usual(keys, *given, **options)
        return usual(keys, *arguments, **options)

    return kernel
