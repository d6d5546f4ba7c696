"""Operations along rows: reductions, softmax, norms, cross entropy, PyTorch's own attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from phantora_py.profile.calls.common import Call, filled
from phantora_py.profile.calls.elementwise import types_in
from sim_server.kernels.work import Launch

# By what the reduction's functor is called.
_REDUCTIONS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("MeanOps", lambda torch, x, over: torch.mean(x, over)),
    ("NormTwoOps", lambda torch, x, over: torch.linalg.vector_norm(x, 2, over)),
    ("WelfordOps", lambda torch, x, over: torch.var_mean(x, over)),
    ("ArgMaxOps", lambda torch, x, over: torch.argmax(x, over)),
    ("ArgMinOps", lambda torch, x, over: torch.argmin(x, over)),
    ("MaxNanFunctor", lambda torch, x, over: torch.amax(x, over)),
    ("MinNanFunctor", lambda torch, x, over: torch.amin(x, over)),
    ("sum_functor", lambda torch, x, over: torch.sum(x, over)),
    ("and_kernel", lambda torch, x, over: torch.all(x, over)),
    ("or_kernel", lambda torch, x, over: torch.any(x, over)),
)


def reduction(torch: Any, launch: Launch) -> Iterator[Call]:
    """reduce_kernel: over the rows or over the columns of a matrix, which the grid tells apart."""
    inputs, outputs = launch.sizes.get("num_inputs"), launch.sizes.get("num_outputs")
    text = launch.name.text
    if inputs is None or outputs is None:
        return
    for name, operation in _REDUCTIONS:
        if name not in text:
            continue
        for kind in types_in(torch, text):
            yield _reduce(torch, operation, filled(torch, [outputs, inputs], kind), 1)
            yield _reduce(torch, operation, filled(torch, [inputs, outputs], kind), 0)
        return


def _reduce(torch: Any, operation: Callable[..., Any], x: Any, over: int) -> Call:
    return lambda: operation(torch, x, over)


def softmax(torch: Any, launch: Launch) -> Iterator[Call]:
    """All three families, with and without logarithm, forward and backward."""
    sizes = _softmax_sizes(launch)
    backward = "ackward" in launch.name.family
    if sizes is None:
        return
    for kind in types_in(torch, launch.name.text):
        if not kind.is_floating_point:
            continue
        x = filled(torch, sizes, kind)
        for name in ("_log_softmax", "_softmax"):
            operation = getattr(torch.ops.aten, f"{name}_backward_data" if backward else name)
            if backward:
                yield _apply(operation, x, torch.softmax(x, 1), 1, kind)
                continue
            yield _apply(operation, x, 1, False)
            if kind is torch.float16:
                yield _apply(operation, x, 1, True)


def _softmax_sizes(launch: Launch) -> list[int] | None:
    """Outer, length, and inner where there is one."""
    family = launch.name.family
    if "Spatial" in family:
        spatial = [launch.integer(position) for position in range(3)]
        return [size or 1 for size in spatial] if None not in spatial else None
    if "softmax_warp" in family:
        rows, columns = launch.integer(0), launch.integer(2)
        return [rows, columns] if rows and columns else None
    length = launch.integer(0)
    return [launch.blocks, length] if length else None


def _apply(operation: Callable[..., Any], *arguments: Any) -> Call:
    return lambda: operation(*arguments)


def norm(torch: Any, launch: Launch) -> Iterator[Call]:
    """Layer norm and RMS norm, forward, and backward of the input or of the parameters."""
    family = launch.name.family
    if "GammaBeta" in family:
        sizes = launch.integer(0), launch.integer(1)
    else:
        sizes = launch.blocks, launch.integer(-1 if "grad_input" in family else 0)
    rows, columns = sizes
    if not rows or not columns:
        return
    for kind in types_in(torch, launch.name.text):
        if not kind.is_floating_point:
            continue
        x = filled(torch, [rows, columns], kind)
        weight, bias = (filled(torch, [columns], kind) for _ in "..")
        if "grad" not in family.lower() and "GammaBeta" not in family:
            yield _apply(torch.ops.aten.native_layer_norm, x, [columns], weight, bias, 1e-5)
            yield _apply(torch.ops.aten._fused_rms_norm, x, [columns], weight, 1e-5)
            continue
        mean, scale = (torch.ones(rows, 1, device="cuda", dtype=torch.float32) for _ in "..")
        mask = [False, True, True] if "GammaBeta" in family else [True, False, False]
        yield _apply(
            torch.ops.aten.native_layer_norm_backward,
            *(x, x, [columns], mean, scale, weight, bias, mask),
        )
        yield _apply(
            torch.ops.aten._fused_rms_norm_backward, x, x, [columns], scale, weight, mask[:2]
        )


def nll_loss(torch: Any, launch: Launch) -> Iterator[Call]:
    """nll_loss_*_2d(..., rows, classes, ...) of contiguous rows."""
    rows, classes = launch.parameter(6), launch.parameter(7)
    if not rows or not classes or "2d" not in launch.name.family:
        return
    target = torch.zeros(rows, device="cuda", dtype=torch.int64)
    for kind in types_in(torch, launch.name.text):
        if not kind.is_floating_point:
            continue
        x = filled(torch, [rows, classes], kind)
        for mean in (1, 2):  # at::Reduction
            arguments = (target, None, mean, -100)
            if "forward" in launch.name.family:
                yield _apply(torch.ops.aten.nll_loss_forward, x, *arguments)
                continue
            one = torch.ones((), device="cuda", dtype=kind)
            yield _apply(torch.ops.aten.nll_loss_backward, one, x, *arguments, one)


def flash(torch: Any, launch: Launch) -> Iterator[Call]:
    """FlashAttention-2: all of its kernels, full and causal."""
    names = ("batch", "heads", "kv_heads", "seqlen_q", "seqlen_k", "head_dim")
    if any(name not in launch.sizes for name in names):
        return
    batch, heads, kv_heads, queries, keys, head_dim = (launch.sizes[name] for name in names)
    kind = torch.bfloat16 if "bfloat16" in launch.name.text else torch.float16
    query = filled(torch, [batch, queries, heads, head_dim], kind)
    key, value = (filled(torch, [batch, keys, kv_heads, head_dim], kind) for _ in "..")
    for causal in (False, True):
        flags = (None, None, queries, keys, 0.0, causal)
        forward = torch.ops.aten._flash_attention_forward
        if "fwd" in launch.name.family:
            yield _apply(forward, query, key, value, *flags, False)
            continue
        result, sums, seed, offset, _ = forward(query, key, value, *flags, False)
        yield _apply(
            torch.ops.aten._flash_attention_backward,
            *(result, query, key, value, result, sums, *flags, seed, offset),
        )


def efficient(torch: Any, launch: Launch) -> Iterator[Call]:
    """Memory-efficient attention: the grid has heads and batch."""
    from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: PLC0415

    names = ("seqlen_q", "seqlen_k", "head_dim", "head_dim_value")
    if any(name not in launch.sizes for name in names):
        return
    queries, keys, deep, wide = (launch.sizes[name] for name in names)
    _, heads, batch = launch.grid
    text = launch.name.text
    # The name begins as fmha_cutlassF_bf16_aligned.
    kind = {"bf16": torch.bfloat16, "f16": torch.float16}.get(text.split("_")[2], torch.float32)
    backward = text.startswith("fmha_cutlassB")

    def operand(length: int, width: int) -> Any:
        return filled(torch, [batch, heads, length, width], kind).requires_grad_(backward)

    query, key, value = operand(queries, deep), operand(keys, deep), operand(keys, wide)

    def forward(causal: bool) -> Any:
        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
            attend = torch.nn.functional.scaled_dot_product_attention
            return attend(query, key, value, is_causal=causal)

    for causal in (False, True):
        if not backward:
            yield _apply(forward, causal)
            continue
        result = forward(causal)
        yield _apply(
            *(torch.autograd.grad, result, (query, key, value), torch.ones_like(result), True)
        )
