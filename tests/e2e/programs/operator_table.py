"""PyTorch's own table of operators on a simulated GPU: which results are right.

Run under `phantora run --ranks 1`. Writes JSON: for each operator, variant and type how many
results are right, unknown or wrong, what was skipped, and why.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import sys
import unittest
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

# Some releases import it for tests of their own.
sys.modules.setdefault("expecttest", ModuleType("expecttest")).__dict__.setdefault(
    "TestCase", unittest.TestCase
)
table: Any = importlib.import_module("torch.testing._internal.common_methods_invocations")

DTYPES = {"int64": torch.int64, "bool": torch.bool, "bf16": torch.bfloat16, "fp32": torch.float32}
FOREACH = [name for name in dir(table) if name.startswith("foreach_") and name.endswith("_op_db")]
# Their results are memory that nobody has written.
UNWRITTEN = ("empty", "new_empty", "resize_", "empty_permuted", "_upsample_bilinear2d_aa_unwritten")
# PyTorch 2.8 divides by the step of a range that became 0, on the CPU too, and the process ends.
ENDS_THE_PROCESS = ("mvlgamma",) if torch.__version__.startswith("2.8.") else ()
MOST_BYTES = 64 << 10
# What PyTorch says of types and arguments that its CUDA kernels do not take.
REFUSALS = (
    "not implemented for",
    "Could not run",
    "to be on cpu",
    "not supported",
    "only supports",
    "not support",
)

shim = ctypes.CDLL(None)


def known_values(tensor: torch.Tensor) -> torch.Tensor | None:
    """None: not all of `tensor` is known."""
    values = torch.empty(tensor.shape, dtype=tensor.dtype)
    if tensor.numel() == 0:
        return values
    numbers = ctypes.c_int64 * tensor.dim()
    known = shim.ph_read_values(
        ctypes.c_void_p(tensor.data_ptr()),
        ctypes.c_uint64(tensor.element_size()),
        ctypes.c_uint64(tensor.dim()),
        numbers(*tensor.shape),
        numbers(*tensor.stride()),
        ctypes.c_void_p(values.data_ptr()),
    )
    if not known:
        return None
    if tensor.is_conj():
        values = values.conj()
    return values.neg() if tensor.is_neg() else values


def tensors_of(value: Any) -> list[torch.Tensor]:
    return [one for one in tree_flatten(value)[0] if isinstance(one, torch.Tensor)]


def on(device: str, value: Any) -> Any:
    """A copy on `device`, of all tensors and devices in `value`, with their strides."""

    def move(one: Any) -> Any:
        if isinstance(one, torch.Tensor):
            return one.detach().clone().to(device)
        if isinstance(one, torch.device) or one == "cpu":
            return torch.device(device)
        return one

    return tree_map(move, value)


def is_equal(found: torch.Tensor, expected: torch.Tensor) -> bool:
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return False
    if not (expected.is_floating_point() or expected.is_complex()):
        return bool(torch.equal(found, expected))
    try:
        torch.testing.assert_close(found, expected, equal_nan=True)
    except AssertionError:
        return False
    return True


# Random operators of which numbers are known, which the CPU draws otherwise.
DRAWN = (
    *("bernoulli", "multinomial", "rand_like", "randint", "uniform"),
    *(f"nn.functional.{name}" for name in ("dropout", "alpha_dropout", "feature_alpha_dropout")),
)


def verdict(found: Any, expected: Any) -> str:
    """ "right", "unknown" or what is wrong."""
    found_parts, expected_parts = tree_flatten(found)[0], tree_flatten(expected)[0]
    if len(found_parts) != len(expected_parts):
        return f"wrong: {len(found_parts)} results, not {len(expected_parts)}"
    unknown = False
    for one, other in zip(found_parts, expected_parts, strict=True):
        if not isinstance(one, torch.Tensor):
            if isinstance(one, torch.device):
                continue
            if one != other and not (one != one and other != other):  # noqa: PLR0124
                return f"wrong: {one}, not {other}"
            continue
        if one.layout is not torch.strided or one.is_quantized or one.device.type != "cuda":
            continue
        values = known_values(one)
        if values is None:
            unknown = True
        elif not is_equal(values, other):
            text = f"wrong: {values.flatten()[:6].tolist()}, not {other.flatten()[:6].tolist()}"
            return f"{text} ({tuple(values.shape)}, {tuple(other.shape)})"
    return "unknown" if unknown else "right"


def differ(one: Any, other: Any) -> bool:
    """Whether two runs on the CPU do: the operator is random."""
    if not isinstance(one, torch.Tensor) or one.layout is not torch.strided or one.is_quantized:
        return False
    if one.dtype is torch.complex32:  # The CPU has few operators for it.
        one, other = one.to(torch.complex64), other.to(torch.complex64)
    return one.shape != other.shape or not torch.equal(one.nan_to_num(), other.nan_to_num())


def run_case(name: str, call: Callable[..., Any], given: Any) -> tuple[str, str]:
    """The verdict on the result, and that on the inputs afterwards."""
    cpu = on("cpu", given)
    torch.manual_seed(0)
    try:
        expected = call(*cpu)
        torch.manual_seed(1)
        again = call(*on("cpu", given))
    except Exception as error:
        return f"skipped: the CPU raises {type(error).__name__}", ""
    cuda = on("cuda", given)
    try:
        found = call(*cuda)
    except Exception as error:
        if any(text in str(error) for text in REFUSALS):
            return f"skipped: CUDA raises {type(error).__name__}", ""
        return f"raised {type(error).__name__}: {str(error)[:120]}", ""
    pairs = zip(tree_flatten(expected)[0], tree_flatten(again)[0], strict=True)
    is_random = any(differ(*pair) for pair in pairs)
    result = verdict(found, expected)
    is_drawn = name.startswith(DRAWN)
    if is_random or (is_drawn and result.startswith("wrong")):
        # tests/e2e/test_random_operations.py says which numbers these have to be.
        if result == "unknown" or is_drawn:
            return "skipped: random", ""
        result = f"wrong: known, but random; {result}"
    return result, verdict(cuda, cpu)


def variants(op: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    yield "function", lambda x, args, options: op(x, *args, **options)
    if getattr(op, "inplace_variant", None) is not None:
        in_place = op.inplace_variant
        yield "in place", lambda x, args, options: in_place(x, *args, **options)
    if getattr(op, "supports_out", False) and getattr(op, "op", None) is not None:

        def with_out(x: Any, args: Any, options: Any) -> Any:
            result = op(x, *args, **options)
            out = tree_map(
                lambda one: torch.empty_like(one) if isinstance(one, torch.Tensor) else one, result
            )
            op(x, *args, **options, out=out)
            return out

        yield "out", with_out


def samples_of(op: Any, dtype: torch.dtype, most: int) -> Iterator[Any]:
    torch.manual_seed(0)
    taken = 0
    for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
        sizes = [t.nbytes for t in tensors_of((sample.input, sample.args, sample.kwargs))]
        if sum(sizes) > MOST_BYTES:
            continue
        yield sample
        taken += 1
        if taken >= most:
            return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--shard", default="0/1", help="every N-th operator: 0/4")
    parser.add_argument("--only", default="")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.cuda.init()
    first, step = map(int, options.shard.split("/"))
    found: list[list[Any]] = []
    ops = [*table.op_db, *(op for name in FOREACH for op in getattr(table, name))]
    for op in ops[first::step]:
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        if options.only and name not in options.only.split(","):
            continue
        for dtype_name in options.dtypes.split(","):
            found += run_operator(op, name, dtype_name, options.samples)
    with open(options.out, "w") as file:
        json.dump(found, file, indent=0)


def run_operator(op: Any, name: str, dtype_name: str, most: int) -> list[list[Any]]:
    """Rows: operator, type, variant, verdict on results, verdict on inputs, count."""
    dtype = DTYPES[dtype_name]
    if name.startswith(UNWRITTEN):
        return [[name, dtype_name, "", "skipped: memory that nobody has written", "", 1]]
    if dtype is torch.int64 and name.startswith(ENDS_THE_PROCESS):
        return [[name, dtype_name, "", "skipped: PyTorch ends the process", "", 1]]
    if dtype not in op.supported_dtypes("cuda"):
        return []
    rows: Counter[tuple[str, ...]] = Counter()
    try:
        samples = list(samples_of(op, dtype, most))
    except Exception as error:
        return [[name, dtype_name, "", f"skipped: no samples ({type(error).__name__})", "", 1]]
    for variant, call in variants(op):
        for sample in samples:
            given = (sample.input, sample.args, sample.kwargs)
            result, inputs = run_case(name, call, given)
            rows[name, dtype_name, variant, result, inputs] += 1
    print(name, dtype_name, dict(Counter(row[3].split(":")[0] for row in rows)), file=sys.stderr)
    return [[*row, count] for row, count in rows.items()]


if __name__ == "__main__":
    main()
