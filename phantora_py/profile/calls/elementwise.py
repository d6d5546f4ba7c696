"""Operations behind TensorIterator's kernels, whose functor says which it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from phantora_py.profile.calls.common import Call, Refusal, filled
from sim_server.kernels.work import Launch

# PyTorch's names of the types that stand in kernel names.
_CXX_TYPES = {
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e5m2": "float8_e5m2",
}
_TYPE = re.compile("|".join(rf"(?<![\w:]){re.escape(name)}(?!\w)" for name in _CXX_TYPES))
_COPIED = ("float32", "bfloat16", "float16")

Operation = Callable[..., Any]


def _aten(name: str, *rest: Any, **options: Any) -> Operation:
    """The operation of that name in torch.ops.aten, `rest` after its tensors."""
    return lambda torch, *tensors: getattr(torch.ops.aten, name)(*tensors, *rest, **options)


def _masked_fill(torch: Any, x: Any, mask: Any) -> Any:
    return torch.ops.aten.masked_fill_(x, mask.view(torch.bool)[: len(x)], 1)


def _where(torch: Any, mask: Any, x: Any, y: Any) -> Any:
    return torch.ops.aten.where(mask.view(torch.bool)[: len(x)], x, y)


# Pattern of the functor, number of tensors, operations that use it. Scalars are of no bearing.
_OPERATIONS: tuple[tuple[str, int, tuple[Operation, ...]], ...] = (
    (r"[AB]UnaryFunctor<.*MulFunctor", 1, (_aten("mul", 3),)),
    (r"BinaryFunctor<.*MulFunctor", 2, (_aten("mul"),)),
    (r"BinaryFunctor<.*DivFunctor", 2, (_aten("div"),)),
    (r"[AB]UnaryFunctor<.*DivFunctor", 1, (_aten("reciprocal"), _aten("div", 3))),
    (r"CUDAFunctor_add<", 2, (_aten("add"),)),
    (r"CUDAFunctorOnSelf_add<", 1, (_aten("add", 1),)),
    (r"CUDAFunctorOnOther_add<", 1, (_aten("rsub", 1), _aten("add", 1))),
    (r"FillFunctor<", 1, (_aten("fill_", 1),)),
    (r"GeluCUDAKernelImpl", 1, (_aten("gelu"), _aten("gelu", approximate="tanh"))),
    (
        r"GeluBackwardCUDAKernelImpl",
        2,
        (_aten("gelu_backward"), _aten("gelu_backward", approximate="tanh")),
    ),
    (r"silu_backward_kernel", 2, (_aten("silu_backward"),)),
    (r"silu_kernel", 1, (_aten("silu"),)),
    (r"launch_clamp_scalar", 1, (_aten("relu"), _aten("clamp", 0), _aten("clamp", 0, 1))),
    (r"threshold_kernel_impl", 2, (_aten("threshold_backward", 0),)),
    (r"tanh_backward_kernel_cuda", 2, (_aten("tanh_backward"),)),
    (r"sigmoid_backward_kernel_cuda", 2, (_aten("sigmoid_backward"),)),
    (r"pow_tensor_scalar_kernel", 1, (_aten("pow", 2), _aten("pow", 3), _aten("pow", 1.5))),
    (r"addcmul_cuda", 3, (_aten("addcmul"),)),
    (r"addcdiv_cuda", 3, (_aten("addcdiv"),)),
    (r"lerp_scalar", 2, (_aten("lerp", 0.5),)),
    (r"[AB]UnaryFunctor<.*CompareEqFunctor", 1, (_aten("eq", 0),)),
    (r"BinaryFunctor<.*CompareEqFunctor", 2, (_aten("eq"),)),
    (r"compare_scalar_kernel", 1, (_aten("gt", 0),)),
    (r"::CompareFunctor<", 2, (_aten("gt"),)),
    (r"::AbsFunctor<", 1, (_aten("abs"),)),
    (r"masked_fill_kernel", 2, (_masked_fill,)),
    (r"where_kernel_impl", 3, (_where,)),
    (r"BitwiseAndFunctor", 2, (_aten("bitwise_and"),)),
    (r"BitwiseOrFunctor", 2, (_aten("bitwise_or"),)),
    *(
        (rf"::{name}_kernel_(cuda|impl)\(", 1, (_aten(name),))
        for name in (
            *("abs", "cos", "erf", "exp", "log", "neg", "reciprocal", "rsqrt", "sigmoid", "sin"),
            *("sqrt", "tanh", "isnan", "bitwise_not", "logical_not"),
        )
    ),
)


def types_in(torch: Any, text: str) -> list[Any]:
    """The number types that a name tells, each once, in their order."""
    names = dict.fromkeys(_CXX_TYPES[found] for found in _TYPE.findall(text))
    return [getattr(torch, name) for name in names]


def pointwise(torch: Any, launch: Launch) -> Iterator[Call]:
    """vectorized_elementwise_kernel and unrolled_elementwise_kernel: dense operands of a number of
    elements that the launch tells.
    """
    elements, text = launch.integer(0), launch.name.text
    if elements is None or elements < 1:
        raise Refusal("a kernel that does not tell its number of elements")
    kinds = types_in(torch, text)
    if "copy_kernel_cuda" in text or "ConvertToFloat8" in text:
        converted = re.search(r"ConvertToFloat8E(4M3fn|5M2)Op", text)
        name = {"4M3fn": "float8_e4m3fn", "5M2": "float8_e5m2"}[converted[1]] if converted else ""
        yield from _copies(torch, kinds, [getattr(torch, name)] if name else [], elements)
    for pattern, arity, operations in _OPERATIONS:
        if re.search(pattern, text):
            for kind, operation in product(kinds, operations):
                yield _call(torch, operation, [filled(torch, [elements], kind)] * arity)
            return


def strided(_torch: Any, _launch: Launch) -> Iterator[Call]:
    """Raises: Refusal."""
    raise Refusal("a pointwise kernel whose operands' strides are not told")


def _call(torch: Any, operation: Operation, tensors: list[Any]) -> Call:
    return lambda: operation(torch, *tensors)


def _copies(torch: Any, kinds: list[Any], more: list[Any], elements: int) -> Iterator[Call]:
    several = list(dict.fromkeys([*more, *kinds, *(getattr(torch, name) for name in _COPIED)]))
    for source, target in product(several, several):
        if source is target:
            continue  # A copy of that kind is none of a kernel.
        out = torch.empty(elements, device="cuda", dtype=target)
        yield _copy(out, filled(torch, [elements], source))


def _copy(out: Any, source: Any) -> Call:
    return lambda: out.copy_(source)


def dropout(torch: Any, launch: Launch) -> Iterator[Call]:
    """fused_dropout_kernel*(..., elements)."""
    elements = max((value for _, value in launch.scalars), default=0)
    for kind in types_in(torch, launch.name.text) if elements > 0 else []:
        if kind.is_floating_point:
            x = filled(torch, [elements], kind)
            yield _call(torch, _aten("native_dropout", 0.1, True), [x])


def random(torch: Any, launch: Launch) -> Iterator[Call]:
    """distribution_*_kernel(elements, ...): which distribution is in the names of its lambdas."""
    elements = launch.integer(0)
    text = launch.name.text
    if elements is None:
        return
    for name, operation in (
        ("bernoulli", _aten("bernoulli_", 0.5)),
        ("exponential", _aten("exponential_")),
        ("normal", _aten("normal_")),
        ("random", _aten("random_")),
        ("uniform", _aten("uniform_")),
    ):
        if name in text:
            for kind in types_in(torch, text):
                yield _call(torch, operation, [torch.zeros(elements, device="cuda", dtype=kind)])
