"""From a signature to calls of PyTorch that come to the same launch. Knows no clock.

PyTorch is a parameter: whoever only reads this needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phantora_py.profile.calls.common import Call, Refusal, Remainder
from phantora_py.profile.calls.cudnn import attention, batch_norm, convolution, ctc_loss
from phantora_py.profile.calls.products import product
from phantora_py.profile.calls.recurrent import CELLS, recurrent

__all__ = ["Call", "Refusal", "Remainder", "make_call"]

_CUDNN: Mapping[str, Callable[[Any, Mapping[str, Any]], Call | Remainder]] = {
    "attention_": attention,
    "convolution_": convolution,
    "batch_norm_": batch_norm,
    "ctc_loss": ctc_loss,
    **{f"{cell}_": recurrent for cell in CELLS},
}


def make_call(torch: Any, signature: Mapping[str, Any]) -> Call | Remainder:
    """What comes to the launch of a library's signature. Raises: Refusal."""
    kind, operation = signature["kind"], str(signature.get("operation", ""))
    if kind == "gemm":
        return product(torch, signature)
    if signature.get("library") == "cudnn":
        for prefix, make in _CUDNN.items():
            if operation.startswith(prefix):
                return make(torch, signature)
    raise Refusal(f"{signature.get('library', '')} {operation or kind} has no call of PyTorch yet")
