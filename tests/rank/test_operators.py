"""How kernels of PyTorch's are replaced by ours."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

from phantora_py.rank.operators import Kernel, Operators


class Library:
    """As PyTorch's since 2.11: who replaces what Python has replaced has to say so."""

    kernels: ClassVar[dict[str, Kernel]] = {}

    def __init__(self, namespace: str, kind: str) -> None:
        assert (namespace, kind) == ("aten", "IMPL")

    def impl(
        self, name: str, kernel: Kernel, device: str, *, with_keyset: bool, allow_override: bool
    ) -> None:
        assert (device, with_keyset) == ("CUDA", True)
        if name in self.kernels and not allow_override:
            raise RuntimeError("there is already a kernel registered from python")
        self.kernels[name] = kernel


def test_one_that_we_have_replaced_may_be_replaced_again() -> None:
    """The later one gets the earlier one as the usual kernel."""
    Library.kernels = {}

    def get_kernel(name: str, device: str) -> Any:
        usual = Library.kernels.get(name.removeprefix("aten::"), lambda keys, x: [x])
        return SimpleNamespace(call_boxed=usual)

    packet = SimpleNamespace(__name__="_grouped_mm", overloads=lambda: [])
    operator = SimpleNamespace(_schema=SimpleNamespace(arguments=[]), overloadpacket=packet)
    torch: Any = SimpleNamespace(
        library=SimpleNamespace(get_kernel=get_kernel, Library=Library),
        ops=SimpleNamespace(aten=SimpleNamespace(_grouped_mm=SimpleNamespace(default=operator))),
    )

    def adding(word: str) -> Callable[[Kernel], Kernel]:
        return lambda usual: lambda keys, x: [*usual(keys, x), word]

    for word in ("values", "sizes"):
        Operators(torch, "CUDA").replace("_grouped_mm", adding(word))
    assert Library.kernels["_grouped_mm"](None, "called") == ["called", "values", "sizes"]
