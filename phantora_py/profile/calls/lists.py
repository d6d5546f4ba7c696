"""Operations on lists of tensors: optimizers, norms of gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil
from typing import Any

from phantora_py.profile.calls.common import Call, filled
from phantora_py.profile.calls.elementwise import types_in
from sim_server.kernels.work import Launch

# Source: aten/src/ATen/native/cuda/MultiTensorApply.cuh: what a block works on.
_CHUNK = 65536

# By what the functor and its operation are called; each is given the lists that it needs.
_OPERATIONS: tuple[tuple[tuple[str, ...], Callable[..., Any]], ...] = (
    (("BinaryOpScalarFunctor", "multiplies"), lambda torch, x: torch._foreach_mul_(x, 2.0)),
    (("BinaryOpScalarFunctor", "divides"), lambda torch, x: torch._foreach_div_(x, 2.0)),
    (("BinaryOpScalarFunctor", "plus"), lambda torch, x: torch._foreach_add_(x, 2.0)),
    (
        ("BinaryOpScalarTensorFunctor", "multiplies"),
        lambda torch, x: torch._foreach_mul_(x, torch.ones((), device="cuda")),
    ),
    (("BinaryOpListAlphaFunctor", "plus"), lambda torch, x, y: torch._foreach_add_(x, y)),
    (("BinaryOpListAlphaFunctor", "multiplies"), lambda torch, x, y: torch._foreach_mul_(x, y)),
    (("BinaryOpListAlphaFunctor", "divides"), lambda torch, x, y: torch._foreach_div_(x, y)),
    (("LpNormFunctor",), lambda torch, x: torch._foreach_norm(x)),
    (("UnaryOpFunctor", "Sqrt"), lambda torch, x: torch._foreach_sqrt(x)),
    (("UnaryOpFunctor", "Sqrt"), lambda torch, x: torch._foreach_sqrt_(x)),
    (
        ("BinaryOpScalarListFunctor", "divides"),
        lambda torch, x: torch._foreach_div_(x, [2.0] * len(x)),
    ),
    (
        ("BinaryOpScalarListFunctor", "multiplies"),
        lambda torch, x: torch._foreach_mul_(x, [2.0] * len(x)),
    ),
    (
        ("PointwiseOpScalarListFunctor", "divides"),
        lambda torch, x, y, z: torch._foreach_addcdiv_(x, y, z, [2.0] * len(x)),
    ),
    (("ZeroFunctor",), lambda torch, x: torch._foreach_zero_(x)),
    (("TernaryOpScalarFunctor",), lambda torch, x, y: torch._foreach_lerp_(x, y, 0.5)),
    (
        ("PointwiseOpScalarFunctor", "multiplies"),
        lambda torch, x, y, z: torch._foreach_addcmul_(x, y, z),
    ),
    (
        ("PointwiseOpScalarFunctor", "divides"),
        lambda torch, x, y, z: torch._foreach_addcdiv_(x, y, z),
    ),
)


def multi_tensor(torch: Any, launch: Launch) -> Iterator[Call]:
    """multi_tensor_apply_kernel: as many elements and blocks as the launch has, in one large tensor
    and some of one element.
    """
    elements, text = launch.sizes.get("elements"), launch.name.text
    if not elements:
        return
    lengths = lengths_of(elements, launch.blocks)
    for kind in types_in(torch, text):
        if not kind.is_floating_point:
            continue
        if "FusedAdam" in text:
            yield _adam(torch, text, lengths, kind)
            continue
        for words, operation in _OPERATIONS:
            if all(word in text for word in words):
                yield _call(torch, operation, lengths, kind)


def lengths_of(elements: int, blocks: int) -> list[int]:
    """Of tensors that make so many blocks together; of fewer if that cannot be."""
    small = max(0, min(blocks - ceil(elements / _CHUNK), elements - 1))
    while small and ceil((elements - small) / _CHUNK) + small > blocks:
        small -= 1
    return [elements - small] + [1] * small


def _call(torch: Any, operation: Callable[..., Any], lengths: list[int], kind: Any) -> Call:
    count = operation.__code__.co_argcount - 1
    tensors = [[filled(torch, [length], kind).abs() for length in lengths] for _ in range(count)]
    return lambda: operation(torch, *tensors)


def _adam(torch: Any, text: str, lengths: list[int], kind: Any) -> Call:
    amsgrad = "TensorListMetadata<5>" in text
    tensors = [[filled(torch, [length], kind).abs() for length in lengths] for _ in range(5)]
    steps = [torch.ones((), device="cuda") for _ in lengths]
    step = torch._fused_adamw_ if "ADAM_MODE)1" in text else torch._fused_adam_
    parameters, gradients, means, squares, largest = tensors
    return lambda: step(
        *(parameters, gradients, means, squares, largest if amsgrad else [], steps),
        lr=1e-3,
        beta1=0.9,
        beta2=0.999,
        weight_decay=0.01,
        eps=1e-8,
        amsgrad=amsgrad,
        maximize=False,
    )
