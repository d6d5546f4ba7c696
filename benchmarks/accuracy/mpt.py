"""A decoder like MosaicML's MPT, as llm-foundry built it for the published runs of 2023.

Facts are from mosaicml/llm-foundry (README and sweep.sh of scripts/train/benchmarking,
scripts/train/yamls, llmfoundry/models/mpt): learned positions and no ALiBi, biases everywhere,
layer norms in low precision, exact GELU, the output layer tied to the embedding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

VOCABULARY = 50368


@dataclass(frozen=True)
class Shape:
    """Of scripts/train/yamls/pretrain/mpt-*.yaml."""

    layers: int
    width: int
    heads: int


SHAPES = {
    "125m": Shape(12, 768, 12),
    "350m": Shape(24, 1024, 16),
    "760m": Shape(24, 1536, 12),
    "1b": Shape(24, 2048, 16),
    "3b": Shape(32, 2560, 20),
    "7b": Shape(32, 4096, 32),
    "13b": Shape(40, 5120, 40),
    "30b": Shape(48, 7168, 56),
    "70b": Shape(80, 8192, 64),
    "tiny": Shape(2, 256, 4),  # not published
}


class LowPrecisionNorm(nn.LayerNorm):
    """A layer norm that autocast does not take to single precision."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", enabled=False):
            return functional.layer_norm(
                x.bfloat16(),
                self.normalized_shape,
                self.weight.bfloat16(),
                self.bias.bfloat16(),
                self.eps,
            )


class TiedEmbedding(nn.Embedding):
    """The table of the tokens, and the output layer if it is given hidden states."""

    def forward(self, x: torch.Tensor, output: bool = False) -> torch.Tensor:
        return functional.linear(x, self.weight) if output else super().forward(x)


class Block(nn.Module):
    """Attention and feed-forward, each after a norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm_1 = LowPrecisionNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.norm_2 = LowPrecisionNorm(shape.width)
        self.up = nn.Linear(shape.width, 4 * shape.width)
        self.down = nn.Linear(4 * shape.width, shape.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm_1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        # Nearest to the FlashAttention of the time; what is between the two is in `eras`.
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm_2(x))))


class Mpt(nn.Module):
    """From tokens to logits."""

    def __init__(self, shape: Shape, length: int) -> None:
        super().__init__()
        self.tokens = TiedEmbedding(VOCABULARY, shape.width)
        self.positions = nn.Embedding(length, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = LowPrecisionNorm(shape.width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        at = torch.arange(tokens.shape[1], device=tokens.device).unsqueeze(0)
        x = self.tokens(tokens) + self.positions(at)
        for block in self.blocks:
            x = block(x)
        return self.tokens(self.norm(x), output=True)
