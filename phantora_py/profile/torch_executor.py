"""The GPU executor: `python -m phantora_py.profile.torch_executor`; `executor` tells the protocol.

It owns one real GPU and issues library calls again as calls of PyTorch that come to the same
library call. What it cannot issue so, kernels by name above all, it refuses.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

_WARM_UP, _WARM, _COLD = 3, 9, 5
# Launches that are timed together, so that the events' own time does not count.
_TOGETHER = 8
# The GPU sleeps while the host queues what is timed; cycles for some milliseconds (assumed).
_HEAD_START_CYCLES = 10_000_000
_FLUSHED_BYTES = 512 << 20  # several times the largest L2 cache
_TYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64"}

Call = Callable[[], Any]


class Refusal(Exception):  # noqa: N818 - says what it is
    """The message says what cannot be issued."""


def main() -> int:
    """Answers until the input ends."""
    import torch  # noqa: PLC0415 - whoever only reads this module needs none

    if not torch.cuda.is_available():
        _say({"refused": "PyTorch finds no GPU"})
        return 1
    torch.manual_seed(0)
    _say(_environment(torch))
    for line in sys.stdin:
        try:
            call = make_call(torch, json.loads(line)["signature"])
            answer = _measure(torch, call)
        except Refusal as refusal:
            answer = {"refused": str(refusal)}
        except torch.cuda.OutOfMemoryError:
            answer = {"refused": "it does not fit into the GPU's memory"}
        except RuntimeError as error:
            # After a fault nothing works any more: the next start will.
            if "CUDA error" in str(error):
                raise
            answer = {"refused": str(error).partition("\n")[0]}
        _say(answer)
    return 0


def make_call(torch: Any, signature: Mapping[str, Any]) -> Call:
    """What comes to the signature's library call. Raises: Refusal."""
    if signature["kind"] == "gemm":
        return _product(torch, signature)
    operation = str(signature.get("operation", ""))
    if signature.get("library") == "cudnn" and operation.startswith("attention_"):
        return _attention(torch, signature)
    raise Refusal(f"{operation or signature['kind']} cannot be issued as a call of PyTorch yet")


def _product(torch: Any, signature: Mapping[str, Any]) -> Call:
    """Column-major op(A) op(B) is row-major op(B)^T op(A)^T, in reverse order."""
    numbers = {signature[operand] for operand in "abcd"}
    number, epilogue = signature["a"], signature["epilogue"]
    if len(numbers) > 1 or number not in _TYPES:
        raise Refusal(f"a product of {', '.join(sorted(numbers))}")
    if epilogue not in ("none", "bias") or "C" in (signature["transa"], signature["transb"]):
        raise Refusal(f"a product with epilogue {epilogue} or a conjugate")
    torch.backends.cuda.matmul.allow_tf32 = signature["compute"] == "tf32"
    m, n, k, batch = (signature[name] for name in ("m", "n", "k", "batch"))
    leading = (
        k if signature["transa"] == "T" else m,
        n if signature["transb"] == "T" else k,
        m,
    )
    dense = tuple(signature[name] for name in ("lda", "ldb", "ldc")) == leading
    strides = signature.get("strides", [m * k, k * n, m * n])
    if not dense or (batch > 1 and strides != [m * k, k * n, m * n]):
        raise Refusal("a product of parts of larger matrices")
    kind = getattr(torch, _TYPES[number])

    def operand(rows: int, columns: int, transposed: bool) -> Any:
        """Row-major rows x columns, or the transpose of a row-major one."""
        sizes = (columns, rows) if transposed else (rows, columns)
        made = torch.randn(*([batch] if batch > 1 else []), *sizes, device="cuda", dtype=kind)
        return made.transpose(-1, -2) if transposed else made

    left = operand(n, k, signature["transb"] == "T")
    right = operand(k, m, signature["transa"] == "T")
    out = torch.zeros(*([batch] if batch > 1 else []), n, m, device="cuda", dtype=kind)
    if epilogue == "bias":
        if batch > 1 or signature["beta"]:
            raise Refusal("a batch of products with a bias, or one that is added to")
        bias = torch.randn(m, device="cuda", dtype=kind)
        return lambda: torch.addmm(bias, left, right, out=out)
    if signature["beta"]:
        add = torch.baddbmm if batch > 1 else torch.addmm
        return lambda: add(out, left, right, out=out)
    multiply = torch.bmm if batch > 1 else torch.mm
    return lambda: multiply(left, right, out=out)


def _attention(torch: Any, signature: Mapping[str, Any]) -> Call:
    """As PyTorch's layers call it: operands lie as [batch, length, heads, head size]."""
    from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: PLC0415

    if signature["dropout"] or signature["bias"] or signature["type"] not in ("bf16", "f16"):
        raise Refusal("attention with dropout or a bias, or in another type than bf16 and f16")
    kind = getattr(torch, _TYPES[signature["type"]])
    batch = signature["batch"]

    def operand(length: str, heads: str, head_dim: str) -> Any:
        sizes = (batch, signature[length], signature[heads], signature[head_dim])
        made = torch.randn(*sizes, device="cuda", dtype=kind, requires_grad=True)
        return made.transpose(1, 2)

    query = operand("seqlen_q", "heads", "head_dim")
    key = operand("seqlen_k", "kv_heads", "head_dim")
    value = operand("seqlen_k", "kv_heads", "head_dim_v")

    def forward() -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(
                *(query, key, value),
                is_causal=bool(signature["causal"]),
                enable_gqa=signature["heads"] != signature["kv_heads"],
            )

    if signature["operation"] == "attention_forward":
        return forward
    result = forward()
    gradient = torch.randn_like(result)
    return lambda: torch.autograd.grad(result, (query, key, value), gradient, retain_graph=True)


def _measure(torch: Any, call: Call) -> dict[str, Any]:
    """Warm: several in a row; cold: one after the cache was filled with something else."""
    for _ in range(_WARM_UP):
        call()
    torch.cuda.synchronize()
    flushed = torch.empty(_FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
    warm_ns = [_elapsed_ns(torch, call, _TOGETHER) for _ in range(_WARM)]
    cold_ns = []
    for _ in range(_COLD):
        flushed.zero_()
        cold_ns.append(_elapsed_ns(torch, call, 1))
    return {"warm_ns": warm_ns, "cold_ns": cold_ns, "sm_khz": _clock_khz()}


def _elapsed_ns(torch: Any, call: Call, launches: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(_HEAD_START_CYCLES)
    start.record()
    for _ in range(launches):
        call()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e6 / launches


def _environment(torch: Any) -> dict[str, str]:
    libraries = {"torch": torch.__version__, "cudnn": str(torch.backends.cudnn.version())}
    return {
        "gpu": torch.cuda.get_device_name(0),
        "driver": _ask_driver("driver_version"),
        "cuda": torch.version.cuda,
        "libraries": ", ".join(f"{name} {version}" for name, version in libraries.items()),
    }


def _clock_khz() -> int:
    said = _ask_driver("clocks.sm")
    return int(said) * 1000 if said.isdigit() else 0


def _ask_driver(what: str) -> str:
    """One figure of nvidia-smi, "" where it has none."""
    words = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits", "--id=0"]
    try:
        said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""
    return said.strip()


def _say(answer: Mapping[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    sys.exit(main())
