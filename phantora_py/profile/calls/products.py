"""Matrix products of cuBLAS and cuBLASLt, and PyTorch's grouped ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phantora_py.profile.calls.common import Call, Refusal, filled, number, strided

_PLAIN = ("bf16", "f16", "f32", "f64")
_FLOAT8 = ("f8e4m3", "f8e5m2")
_GRADIENT = "a product that makes a gradient of a bias or of GELU beside"


def product(torch: Any, signature: Mapping[str, Any]) -> Call:
    """Column-major op(A) op(B) is row-major op(B)^T op(A)^T, in reverse order. Raises: Refusal."""
    if signature.get("grouped"):
        return _grouped(torch, signature)
    if "C" in (signature["transa"], signature["transb"]):
        raise Refusal("a product with a conjugate")
    for member in ("orders", "pointer_array"):
        if member in signature:
            raise Refusal(f"a product with {member}")
    left, right, out = _operands(torch, signature)
    types = (signature["a"], signature["b"], signature["d"])
    if types[0] in _FLOAT8 and types[1] in _FLOAT8:
        return _scaled(torch, signature, left, right)
    if types == ("i8", "i8", "i32"):
        if signature["batch"] > 1 or signature["epilogue"] != "none" or signature["beta"]:
            raise Refusal("a product of integers that is more than that")
        return lambda: torch._int_mm(left, right, out=out)
    if types[0] != types[1] or types[0] not in _PLAIN:
        raise Refusal(f"a product of {types[0]} and {types[1]}")
    torch.backends.cuda.matmul.allow_tf32 = signature["compute"] == "tf32"
    plain_lt = signature["library"] == "cublasLt" and signature["epilogue"] == "none"
    torch.backends.cuda.preferred_blas_library("cublaslt" if plain_lt else "cublas")
    if types[2] != types[0]:
        return _widened(torch, signature, left, right)
    return _plain(torch, signature, left, right, out)


def _operands(torch: Any, signature: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    m, n, k, batch = (signature[name] for name in ("m", "n", "k", "batch"))
    lda, ldb, ldc = (signature[name] for name in ("lda", "ldb", "ldc"))
    apart = signature.get("strides", [m * k, k * n, m * n])

    def operand(rows: int, columns: int, steps: tuple[int, int], stride: int, kind: str) -> Any:
        sizes, strides = [rows, columns], list(steps)
        if batch > 1:
            sizes, strides = [batch, *sizes], [stride, *strides]
        return strided(torch, sizes, strides, number(torch, kind))

    transposed = signature["transb"] == "T"
    left = operand(n, k, (1, ldb) if transposed else (ldb, 1), apart[1], signature["b"])
    transposed = signature["transa"] == "T"
    right = operand(k, m, (1, lda) if transposed else (lda, 1), apart[0], signature["a"])
    return left, right, operand(n, m, (ldc, 1), apart[2], signature["d"])


def _plain(torch: Any, signature: Mapping[str, Any], left: Any, right: Any, out: Any) -> Call:
    epilogue, batched = signature["epilogue"], signature["batch"] > 1
    if epilogue in ("bias", "gelu_bias"):
        if batched or signature["beta"]:
            raise Refusal("a batch of products with a bias, or one that is added to")
        bias = filled(torch, [signature["m"]], number(torch, signature["d"]))
        if epilogue == "gelu_bias":
            return lambda: torch._addmm_activation(bias, left, right, use_gelu=True)
        return lambda: torch.addmm(bias, left, right, out=out)
    if epilogue != "none":
        raise Refusal(_GRADIENT if "grad" in epilogue else f"a product with epilogue {epilogue}")
    if signature["beta"]:
        add = torch.baddbmm if batched else torch.addmm
        return lambda: add(out, left, right, out=out)
    multiply = torch.bmm if batched else torch.mm
    return lambda: multiply(left, right, out=out)


def _widened(torch: Any, signature: Mapping[str, Any], left: Any, right: Any) -> Call:
    """Operands of 16 bits, the result in single precision."""
    is_plain = signature["epilogue"] == "none" and not signature["beta"]
    if signature["d"] != "f32" or signature["a"] not in ("bf16", "f16") or not is_plain:
        raise Refusal(f"a product of {signature['a']} into {signature['d']}")
    multiply = torch.bmm if signature["batch"] > 1 else torch.mm
    return lambda: multiply(left, right, out_dtype=torch.float32)


def _scaled(torch: Any, signature: Mapping[str, Any], left: Any, right: Any) -> Call:
    """FP8, with one scale for an operand or one for each of its rows."""
    scales = {signature.get("scale_a", "none"), signature.get("scale_b", "none")}
    if scales == {"tensor"}:
        scale_left = scale_right = torch.ones((), device="cuda")
    elif scales == {"outer"}:
        scale_left = torch.ones(signature["n"], 1, device="cuda")
        scale_right = torch.ones(1, signature["m"], device="cuda")
    else:
        raise Refusal(f"a product of FP8 numbers with scales {', '.join(sorted(scales))}")
    if signature["epilogue"] not in ("none", "bias") or signature["batch"] > 1:
        raise Refusal(f"a product of FP8 numbers with epilogue {signature['epilogue']}")
    bias = None
    if signature["epilogue"] == "bias":
        kind = "bf16" if signature["d"] == "f32" else signature["d"]
        bias = filled(torch, [signature["m"]], number(torch, kind))
    result = number(torch, signature["d"])
    return lambda: torch._scaled_mm(
        left, right, scale_a=scale_left, scale_b=scale_right, bias=bias, out_dtype=result
    )


def _grouped(torch: Any, signature: Mapping[str, Any]) -> Call:
    """Groups of rows, each with a matrix of its own, of the sizes that the signature has for them
    or else of one size; of columns or parts of the sums, where the groups differ in these.
    """
    rows, columns, depth, groups = (signature[name] for name in ("m", "n", "k", "batch"))
    along = signature.get("along", "m")
    sizes = signature.get("group_sizes") or [signature[along]] * groups
    ends = torch.tensor(sizes, device="cuda").cumsum(0).to(torch.int32)
    whole = sum(sizes)
    lefts = {"m": [whole, depth], "n": [groups, rows, depth], "k": [rows, whole]}
    rights = {"m": [groups, columns, depth], "n": [whole, depth], "k": [columns, whole]}
    left = filled(torch, lefts[along], number(torch, signature["a"]))
    right = filled(torch, rights[along], number(torch, signature["b"])).transpose(-2, -1)
    if signature["a"] in _FLOAT8:
        parts = groups if along == "k" else 1
        scale_left = torch.ones([parts * lefts[along][0], *lefts[along][1:-1]], device="cuda")
        scale_right = torch.ones([parts * rights[along][0], *rights[along][1:-1]], device="cuda")
        return lambda: torch._scaled_grouped_mm(
            left, right, scale_left, scale_right, offs=ends, out_dtype=torch.bfloat16
        )
    return lambda: torch._grouped_mm(left, right, offs=ends)
