"""The rank of test_value_kernels.py: small tensor operations on the virtual GPU and on the CPU.

Argument: one of the functions `compare` and `change_lists`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

import torch

Tensors = list[torch.Tensor]
DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)
NUMBERS = DTYPES[1:]


def _with_item(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[2] = 4
    y[::3] = 1
    return y


UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "add_scalar": lambda x: x + 3,
    "subtract_from": lambda x: 10 - x,
    "multiply_scalar": lambda x: x * 2,
    "divide_scalar": lambda x: x / 4,
    "negate": lambda x: -x,
    "absolute": lambda x: x.abs(),
    "flags_of_any_byte": lambda x: x.view(torch.uint8).view(torch.bool).float(),
    "equal_scalar": lambda x: x == 2,
    "unequal_scalar": lambda x: x != 2,
    "greater_scalar": lambda x: x > 2,
    "at_most_scalar": lambda x: x <= 2,
    "in_place": lambda x: x.clone().add_(1).mul_(2),
    "slice": lambda x: x[::2].contiguous(),
    "transpose": lambda x: x.reshape(2, 3).t().contiguous(),
    "broadcast": lambda x: x.reshape(2, 3) + x[:3],
    "set_item": _with_item,
    "cat": lambda x: torch.cat([x, x]),
    "cat_columns": lambda x: torch.cat([x.reshape(2, 3), x.reshape(2, 3)], 1),
    "cat_transposed": lambda x: torch.cat([x.reshape(2, 3).t(), x.reshape(2, 3).t()]),
    "cat_aligned": lambda x: torch.cat([x.repeat(16).reshape(4, -1)] * 2, 1),
    "cat_with_empty": lambda x: torch.cat([x[:0], x[:5]]),
    "cat_of_many": lambda x: torch.cat([x[:1], x[1:3]] * 100),
    "stack": lambda x: torch.stack([x, x]),
    "stack_last": lambda x: torch.stack([x, x], -1),
    "sum": lambda x: x.sum(),
    "sum_rows": lambda x: x.reshape(2, 3).sum(0),
    "sum_columns": lambda x: x.reshape(2, 3).sum(1),
    "maximum": lambda x: x.max(),
    "minimum": lambda x: x.min(),
    "zeros": torch.zeros_like,
    "ones": torch.ones_like,
    "full": lambda x: torch.full_like(x, 5),
}

BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": lambda x, y: x + y,
    "add_scaled": lambda x, y: torch.add(x, y, alpha=2),
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / (y + 1),
    "equal": lambda x, y: x == y,
    "less": lambda x, y: x < y,
    "at_least": lambda x, y: x >= y,
    "where": lambda x, y: torch.where(x > y, x, y),
}


def _cases() -> dict[str, tuple[Callable[..., torch.Tensor], Tensors]]:
    """Every operation with its inputs on the CPU."""
    cases: dict[str, tuple[Callable[..., torch.Tensor], Tensors]] = {}
    for dtype in NUMBERS:
        x = torch.tensor([0, 1, 2, 3, 5, 2]).to(dtype)
        y = torch.tensor([3, 1, 0, 3, 7, 1]).to(dtype)
        cases |= {f"{name} {dtype}": (f, [x]) for name, f in UNARY.items()}
        cases |= {f"{name} {dtype}": (f, [x, y]) for name, f in BINARY.items()}
        cases |= {f"to {dtype} {to}": (lambda t, to=to: t.to(to), [x]) for to in DTYPES}
        if dtype.is_floating_point:
            cases[f"mean {dtype}"] = (lambda t: t[:4].mean(), [x])
        cases[f"add promoted {dtype}"] = (lambda a, b: a + b, [x, y.double()])
    flags = [torch.tensor([True, False, True]), torch.tensor([True, True, False])]
    cases |= {
        "and": (lambda a, b: a & b, flags),
        "or": (lambda a, b: a | b, flags),
        "not": (lambda a, b: ~a, flags),
        "any": (lambda a, b: a.any(), flags),
        "all": (lambda a, b: a.all(), flags),
        "count": (lambda a, b: a.sum(), flags),
        "arange": (lambda a, b: torch.arange(7, device=a.device), flags),
        "arange from": (lambda a, b: torch.arange(2, 3, 0.25, device=a.device), flags),
        "mean": (lambda a, b: a.float().mean(), flags),
        "floor": (lambda a, b: (a.long() * 7 - 3) // 2, flags),
        "remainder": (lambda a, b: (a.long() * 7 - 3) % 4, flags),
        "root": (lambda a, b: (a.float() * 2).sqrt(), flags),
        "finite": (lambda a, b: torch.isfinite(a.float()).all(), flags),
    }
    return cases


def change_lists() -> dict[str, object]:
    """Kernels that work on lists of tensors change some that were known."""
    tensors = [torch.full((n,), 3.0).cuda() for n in (4, 100_000, 8)]
    others = [torch.full_like(tensor, 2.0) for tensor in tensors]
    untouched = torch.full((4,), 7.0).cuda()
    torch._foreach_add_(tensors, 1.0)
    torch._foreach_addcmul_(others, others, others)
    return {
        "untouched": untouched.cpu().tolist(),
        "first": tensors[0].cpu().tolist(),
        "last": tensors[2].cpu().tolist(),
        "other": others[2].cpu().tolist(),
    }


def compare() -> dict[str, object]:
    """The operations whose results differ, and how many there are."""
    wrong = {}
    cases = _cases()
    for name, (function, inputs) in cases.items():
        expected = function(*inputs)
        result = function(*(x.cuda() for x in inputs)).cpu()
        if result.dtype != expected.dtype or not torch.equal(result, expected):
            wrong[name] = [str(result.tolist()), str(expected.tolist())]
    return {"cases": len(cases), "wrong": wrong}


if __name__ == "__main__":
    print(json.dumps({"compare": compare, "change_lists": change_lists}[sys.argv[1]]()), flush=True)
    os._exit(0)
