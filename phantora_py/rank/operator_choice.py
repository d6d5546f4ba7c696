"""Which of PyTorch's operators are carried out on the CPU as well: all but those named here.

docs/decisions/small-operations.md has the reasons. Imports the standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

from .operators import overload

# Their result depends on memory that was never written, or they have none, or no memory for it (the
# zeros of forward-mode gradients); or they change tensors that their schema does not name (running
# statistics).
WITHOUT_VALUES = {
    "_efficientzerotensor",
    *("empty", "empty_strided", "set", "resize", "record_stream", "is_pinned", "_pin_memory"),
    *("_copy_from", "_copy_from_and_resize", "_local_scalar_dense", "_nested_from_padded"),
    *("native_batch_norm", "batch_norm_update_stats", "_batch_norm_with_update"),
}
# What training starts for each layer and each parameter, on tensors with unknown values. A call of
# Python each would take as long as all else that a launch takes. Those whose kernels the shim
# recognises (csrc/shim/values) keep their values all the same.
FREQUENT = {
    *("add", "sub", "mul", "div", "neg", "copy", "cat", "mean", "sum", "fill", "zero"),
    *("sqrt", "rsqrt", "reciprocal", "exp", "lerp", "addcdiv", "norm"),
    *("mm", "addmm", "bmm", "baddbmm", "linalg_vector_norm"),
    *("silu", "gelu", "relu", "sigmoid", "tanh", "threshold", "hardtanh", "leaky_relu"),
    *("_softmax", "_log_softmax", "native_layer_norm", "native_group_norm", "_fused_rms_norm"),
    *("_native_batch_norm_legit", "nll_loss_forward", "max_pool2d_with_indices"),
    *("_adaptive_avg_pool2d", "avg_pool2d", "upsample_nearest2d", "upsample_bilinear2d"),
}
# `2 ** x` gives it a number as a tensor on the device, which no kernel of Python can get.
NUMBER_ON_DEVICE = "pow.Tensor_Tensor_out"
# One call for the parameters of many layers, one for a table.
SELDOM = ("_foreach_", "embedding_dense_backward")
# Arguments that say where something is: what they hold is read and not written, which their kernels
# do not show.
PLACES = {"index", "indices"}
# What these leave as it is may be unknown, unless they combine it with what they put there.
PLACING = {
    *("scatter_", "_index_put_impl_", "put_", "index_copy_", "index_fill_"),
    *("masked_fill_", "masked_scatter_"),
}
# Their tensors are more than a piece of memory. What they are made of comes from other operators.
OTHER_LAYOUTS = ("sparse", "nested", "quantize", "mkldnn")
# Gradients, optimizers' steps, convolutions, attention: as above.
FREQUENT_PARTS = (
    "backward",
    "_fused_ada",
    "_fused_sgd",
    "conv",
    "attention",
    "_thnn_",
    "_rnn",
)


# Of libraries' operators, those that work on weights, which nobody knows; what they are given of
# lengths and offsets comes from the others.
LIBRARY_PARTS = (
    *("lookup", "embedding", "forward", "optimizer", "gemm", "quant", "cache", "pooled"),
    *("lxu", "lru", "lfu", "uvm", "ssd", "dense", "fp8", "bf16", "float", "half", "shared"),
)


def carried_out(torch: ModuleType, namespace: str = "aten") -> Iterator[str]:
    """Names of a namespace's operators, such as "index.Tensor"."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        if name.startswith(f"{namespace}::") and has_kernel(name, "CUDA"):
            operator = name.removeprefix(f"{namespace}::")
            if reason_against(torch, operator, namespace) is None:
                yield operator


def reason_against(torch: ModuleType, name: str, namespace: str = "aten") -> str | None:
    """Why an operator with a kernel for CUDA is left alone; None: it is not."""
    operator, is_own = overload(torch, name, namespace), namespace == "aten"
    plain = operator.overloadpacket.__name__.removeprefix("_foreach_").rstrip("_")
    returns = operator._schema.returns
    has_kernel = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    reasons = {
        "no values": plain in WITHOUT_VALUES,
        "random": torch.Tag.nondeterministic_seeded in operator.tags,
        "view": any(one.alias_info and not one.alias_info.is_write for one in returns),
        "other layouts": is_own and any(part in name for part in OTHER_LAYOUTS),
        "weights": not is_own and any(part in name.lower() for part in LIBRARY_PARTS),
        "number on the device": is_own and name == NUMBER_ON_DEVICE,
        "frequent": is_frequent(name, plain),
        "no kernel for the CPU": not has_kernel(f"{namespace}::{name}", "CPU"),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def is_frequent(name: str, plain: str) -> bool:
    """`plain`: without what says that it is of lists or in place."""
    is_named = plain in FREQUENT or any(part in name for part in FREQUENT_PARTS)
    return is_named and not name.startswith(SELDOM)


def places_values(operator: Any) -> bool:
    """Whether it moves values into a tensor, and looks at none that are there."""
    names = {one.name for one in operator._schema.arguments}
    return operator.overloadpacket.__name__ in PLACING and "reduce" not in names


def places_of(operator: Any) -> list[int]:
    """At which of its arguments there are places that it only reads."""
    arguments = operator._schema.arguments
    return [at for at, one in enumerate(arguments) if one.name in PLACES and not one.alias_info]


def has_counted_result(torch: ModuleType, operator: Any) -> bool:
    """Whether the result has as many elements as the inputs' values say."""
    name = operator.overloadpacket.__name__
    if name == "index":
        return False  # Flags are counted by `nonzero`, which is an operator of its own.
    # PyTorch 2.8 does not tag `_unique`, which `isin` calls.
    return name == "_unique" or torch.Tag.dynamic_output_shape in operator.tags


def counts_itself(torch: ModuleType, operator: Any) -> bool:
    """Whether it reads back that number from what its own kernels write. `bincount` asks for the
    least and the greatest value, by operators of their own.
    """
    return has_counted_result(torch, operator) and operator.overloadpacket.__name__ != "bincount"


def promised_count(operator: Any, inputs: list[Any], results: Any) -> int | None:
    """What PyTorch reads back to size the result: how many elements there are.

    `inputs` of the kernel, `results` of the CPU's. None: nothing that can be told.
    """
    name = operator.overloadpacket.__name__
    first = results[0] if isinstance(results, (tuple, list)) else results
    if name == "bincount" or not hasattr(first, "shape") or first.dim() == 0:
        return None  # The least and the greatest value, by operators of their own.
    dim = inputs[1] % first.dim() if name.startswith("unique_dim") else 0
    return int(first.shape[dim])
