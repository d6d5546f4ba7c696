"""Rotation of queries and keys by their position in one kernel, in place of flash-attn's."""

from __future__ import annotations

import functools
from typing import Any

import torch
import triton
import triton.language as tl

_PAIRS = 1024


@triton.jit
def _rotate_pairs(  # noqa: PLR0917
    values, angles, pairs, heads, row_stride, length, sign, half, many: tl.constexpr
):
    """Pairs of neighbours, in place, as complex numbers times those of `angles`. Heads of a token
    follow each other, tokens after `row_stride`.
    """
    pair = tl.program_id(0) * many + tl.arange(0, many)
    inside = pair < pairs
    token = pair // (heads * half)
    begin = token * row_stride + (pair % (heads * half)) * 2
    real = tl.load(values + begin, mask=inside).to(tl.float32)
    imaginary = tl.load(values + begin + 1, mask=inside).to(tl.float32)
    angle = ((token % length) * half + pair % half) * 2
    cosine = tl.load(angles + angle, mask=inside).to(tl.float32)
    sine = tl.load(angles + angle + 1, mask=inside).to(tl.float32) * sign
    turned = (real * cosine - imaginary * sine).to(tl.bfloat16)
    tl.store(values + begin, turned, mask=inside)
    turned = (real * sine + imaginary * cosine).to(tl.bfloat16)
    tl.store(values + begin + 1, turned, mask=inside)


@functools.cache
def _angles(length: int, depth: int, device: torch.device) -> torch.Tensor:
    """Cosine and sine by position and pair."""
    frequencies = 10000.0 ** (-torch.arange(0, depth, 2, device=device) / depth)
    turns = torch.outer(torch.arange(length, device=device), frequencies)
    return torch.stack([turns.cos(), turns.sin()], dim=-1).bfloat16()


def _launch(x: torch.Tensor, sign: float) -> torch.Tensor:
    _, length, heads, depth = x.shape
    pairs = x.numel() // 2
    _rotate_pairs[(triton.cdiv(pairs, _PAIRS),)](
        *(x, _angles(length, depth, x.device), pairs, heads, x.stride(1), length),
        *(sign, depth // 2),
        many=_PAIRS,
    )
    return x


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return _launch(x, 1.0)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return _launch(grad.contiguous(), -1.0)


def rotate(x: torch.Tensor) -> torch.Tensor:
    """In place. Shape: [batch, length, heads, depth]; heads and depth contiguous."""
    return _Rotate.apply(x)
