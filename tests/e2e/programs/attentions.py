"""Attention by each of PyTorch's ways, forward and backward: `attentions.py WAY ...`."""

from __future__ import annotations

import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

BATCH, HEADS, LENGTH, WIDTH, STEPS = 2, 8, 512, 64, 3

WAYS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}


def attend(way: str, inputs: list[torch.Tensor]) -> torch.Tensor:
    if way == "flex":
        mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, LENGTH, LENGTH)
        return flex_attention(*inputs, block_mask=mask)
    with sdpa_kernel(WAYS[way]):
        return scaled_dot_product_attention(*inputs, is_causal=True)


def main() -> None:
    shape = (BATCH, HEADS, LENGTH, WIDTH)
    for way in sys.argv[1:]:
        inputs = [
            torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)
            for _ in range(3)
        ]
        for _ in range(STEPS):
            attend(way, inputs).sum().backward()
        torch.cuda.synchronize()
        print(f"{way} done", flush=True)


if __name__ == "__main__":
    main()
