"""Calls of cuDNN: attention, convolutions, batch normalisation, CTC losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phantora_py.profile.calls.common import Call, Refusal, filled, number

# What PyTorch tells cuDNN of sequences of labels whose lengths are on the GPU.
_MOST_LABELS = 255


def attention(torch: Any, signature: Mapping[str, Any]) -> Call:
    """As PyTorch's layers call it: operands lie as [batch, length, heads, head size]."""
    from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: PLC0415

    if signature["type"] not in ("bf16", "f16"):
        raise Refusal(f"attention of {signature['type']}")
    kind = number(torch, signature["type"])
    batch = signature["batch"]

    def operand(length: str, heads: str, head_dim: str) -> Any:
        sizes = (batch, signature[length], signature[heads], signature[head_dim])
        made = torch.randn(*sizes, device="cuda", dtype=kind, requires_grad=True)
        return made.transpose(1, 2)

    query = operand("seqlen_q", "heads", "head_dim")
    key = operand("seqlen_k", "kv_heads", "head_dim")
    value = operand("seqlen_k", "kv_heads", "head_dim_v")
    mask = None
    if signature["bias"]:
        sizes = [batch, signature["heads"], signature["seqlen_q"], signature["seqlen_k"]]
        mask = filled(torch, sizes, kind)

    def forward() -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(
                *(query, key, value),
                attn_mask=mask,
                # Which share is dropped is not in the signature, and no matter of time.
                dropout_p=0.1 if signature["dropout"] else 0.0,
                is_causal=bool(signature["causal"]),
                enable_gqa=signature["heads"] != signature["kv_heads"],
            )

    if signature["operation"] == "attention_forward":
        return forward
    result = forward()
    gradient = torch.randn_like(result)
    return lambda: torch.autograd.grad(result, (query, key, value), gradient, retain_graph=True)


def convolution(torch: Any, signature: Mapping[str, Any]) -> Call:
    """Forward, or one gradient alone."""
    if signature["layout"] not in ("channels_last", "contiguous"):
        raise Refusal("a convolution of strided tensors")
    dimensions = len(signature["x"]) - 2
    torch.backends.cudnn.allow_tf32 = signature["compute"] == "tf32"
    kind = number(torch, signature["type"])

    def operand(name: str) -> Any:
        made = filled(torch, signature[name], kind)
        if signature["layout"] == "contiguous":
            return made
        form = torch.channels_last if dimensions == 2 else torch.channels_last_3d
        return made.contiguous(memory_format=form)

    window = (signature["stride"], signature["padding"], signature["dilation"])
    groups = signature["groups"]
    x, w = operand("x"), operand("w")
    if signature["operation"] == "convolution_forward":
        make = getattr(torch, f"conv{dimensions}d")
        return lambda: make(x, w, None, *window, groups)
    if signature["operation"] not in ("convolution_dgrad", "convolution_wgrad"):
        raise Refusal(signature["operation"])
    y = operand("y")
    wanted = [signature["operation"] == "convolution_dgrad"] * 2
    mask = [wanted[0], not wanted[1], False]
    return lambda: torch.ops.aten.convolution_backward(
        *(y, x, w, None, *window, False, [0] * dimensions, groups, mask)
    )


def batch_norm(torch: Any, signature: Mapping[str, Any]) -> Call:
    """cuDNN's, with statistics in single precision where the input has 16 bits."""
    kind = number(torch, signature["type"])
    channels = signature["channels"]
    sizes = (signature["batch"], channels, signature["pixels"], 1)
    x = filled(torch, sizes, kind)
    small = torch.float64 if kind is torch.float64 else torch.float32
    weight, bias, mean, variance = (
        torch.ones(channels, device="cuda", dtype=small) for _ in "...."
    )

    def forward(training: bool) -> Any:
        return torch.ops.aten.cudnn_batch_norm(x, weight, bias, mean, variance, training, 0.1, 1e-5)

    if signature["operation"] != "batch_norm_backward":
        training = signature["operation"] == "batch_norm_forward_training"
        return lambda: forward(training)
    result, saved_mean, saved_variance, reserve = forward(True)
    gradient = torch.randn_like(result)
    return lambda: torch.ops.aten.cudnn_batch_norm_backward(
        x, gradient, weight, mean, variance, saved_mean, saved_variance, 1e-5, reserve
    )


def ctc_loss(torch: Any, signature: Mapping[str, Any]) -> Call:
    """With its gradient, of sequences that are all as long as the longest. A sequence of labels has
    no more than it has steps, or cuDNN leaves its memory.
    """
    steps, batch, channels = (signature[key] for key in ("seqlen", "batch", "channels"))
    labels = min(signature["labels"], steps)
    scores = filled(torch, [steps, batch, channels], torch.float32).log_softmax(2)
    # 0 is the blank; equal neighbours would need one between them.
    targets = torch.arange(batch * labels, dtype=torch.int32) % max(1, channels - 1) + 1
    lengths: list[Any] = [[steps] * batch, [labels] * batch]
    loss = torch.ops.aten._cudnn_ctc_loss.default
    if signature["labels"] == _MOST_LABELS:
        loss, targets = torch.ops.aten._cudnn_ctc_loss.Tensor, targets.cuda()
        lengths = [torch.tensor(one, dtype=torch.int32, device="cuda") for one in lengths]
    return lambda: loss(scores, targets, *lengths, 0, False, False)
