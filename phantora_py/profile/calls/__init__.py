"""From a signature to calls of PyTorch that come to the same launch. Knows no clock.

PyTorch is a parameter: whoever only reads this needs none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from phantora_py.profile.calls.common import Call, Refusal
from phantora_py.profile.calls.cudnn import attention, batch_norm, convolution
from phantora_py.profile.calls.kernels import kernel
from phantora_py.profile.calls.products import product

__all__ = ["Call", "Refusal", "make_calls"]

_CUDNN = {"attention_": attention, "convolution_": convolution, "batch_norm_": batch_norm}


def make_calls(torch: Any, signature: Mapping[str, Any]) -> Iterator[Call]:
    """What comes to the signature's launch: one call for one of a library, which is certain; of a
    kernel by name those that may, the likeliest first, each made when it is asked for. Raises:
    Refusal.
    """
    kind, operation = signature["kind"], str(signature.get("operation", ""))
    if kind == "gemm":
        yield product(torch, signature)
        return
    if kind == "kernel":
        yield from kernel(torch, signature)
        return
    if signature.get("library") == "cudnn":
        for prefix, make in _CUDNN.items():
            if operation.startswith(prefix):
                yield make(torch, signature)
                return
    raise Refusal(f"{signature.get('library', '')} {operation or kind} has no call of PyTorch yet")
