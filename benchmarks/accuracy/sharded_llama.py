"""A stage of a Llama as nanotron builds it: any run of layers, tensor-parallel, sequence first.

Facts are from huggingface/nanotron (src/nanotron/models/llama.py, scripts/scaling_benchmarks.py):
as many key heads as query heads, one product for queries, keys and values, which are then copied
to batch first and keys and values once more, a fused kernel for the rotation, FlashAttention-2 for
sequences of any length, whose bounds are found in every layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from rotary import rotate
from sharded_layers import (
    ColumnLinear,
    Group,
    RowLinear,
    ShardedEmbedding,
    sharded_cross_entropy,
)
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

VOCABULARY = 131072


@dataclass(frozen=True)
class Shape:
    """Of scripts/scaling_benchmarks.py."""

    layers: int
    width: int
    heads: int
    inner: int

    @property
    def tied(self) -> bool:
        """Models below 4 billion parameters share embedding and output layer."""
        return self.inner < 10_000


SHAPES = {
    "1B": Shape(16, 2048, 32, 8192),
    "3B": Shape(28, 3072, 32, 8192),
    "8B": Shape(32, 4096, 32, 14336),
    "80B": Shape(80, 8192, 64, 28672),
    "tiny": Shape(4, 256, 4, 1024),  # not published
}


def blocks_of(shape: Shape, stages: int) -> list[list[str]]:
    """What each stage has. A stage is full once its cost, in multiply-adds, is past its share; only
    layers and the output layer have any. So norm, output layer and loss may part.
    """
    costs = {"layer": 4 * shape.width**2 + 3 * shape.inner * shape.width}
    costs["head"] = VOCABULARY * shape.width
    blocks = ["embedding", *["layer"] * shape.layers, "norm", "head", "loss"]
    whole = sum(costs.get(block, 0) for block in blocks)
    found: list[list[str]] = [[]]
    cost = 0
    for block in blocks:
        found[-1].append(block)
        cost += costs.get(block, 0)
        if cost * stages > whole * len(found):
            found.append([])
    return found + [[]] * (stages - len(found))


class Norm(nn.Module):
    """A root-mean-square norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, self.weight.shape, self.weight, 1e-5)


class Attention(nn.Module):
    """Self-attention of the rank's heads."""

    def __init__(self, shape: Shape, group: Group) -> None:
        super().__init__()
        self.heads = shape.heads // group.size()
        self.depth = shape.width // shape.heads
        self.qkv = ColumnLinear(shape.width, 3 * shape.width, group)
        self.out = RowLinear(shape.width, shape.width, group)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        qkv = self.qkv(x)
        length, batch, _ = qkv.shape
        parts = qkv.view(length, batch, 3, self.heads, self.depth)
        query, key, value = parts.permute(2, 1, 0, 3, 4).contiguous()
        pair = torch.cat([key.unsqueeze(0), value.unsqueeze(0)])
        pair = pair.permute(1, 2, 0, 3, 4).contiguous()
        query, key = rotate(query), rotate(pair[:, :, 0])
        for _ in ("queries", "keys"):
            bounds = torch.zeros(batch + 1, dtype=torch.int32, device=x.device)
            torch.cumsum(mask.sum(-1, dtype=torch.int32), dim=0, out=bounds[1:])
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            attended = functional.scaled_dot_product_attention(
                query.transpose(1, 2),
                key.transpose(1, 2),
                pair[:, :, 1].transpose(1, 2),
                is_causal=True,
            )
        attended = attended.transpose(1, 2).contiguous().view(batch, length, -1)
        return self.out(attended.transpose(0, 1))


class Layer(nn.Module):
    """Attention and feed-forward, each after a norm."""

    def __init__(self, shape: Shape, group: Group) -> None:
        super().__init__()
        self.norm_1 = Norm(shape.width)
        self.attention = Attention(shape, group)
        self.norm_2 = Norm(shape.width)
        self.gate_up = ColumnLinear(shape.width, 2 * shape.inner, group)
        self.down = RowLinear(shape.inner, shape.width, group)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.attention(self.norm_1(x), mask) + x
        gate, up = self.gate_up(self.norm_2(x)).chunk(2, dim=-1)
        return self.down(functional.silu(gate) * up) + x


class Stage(nn.Module):
    """Some blocks in a row."""

    def __init__(self, shape: Shape, blocks: list[str], group: Group) -> None:
        super().__init__()
        self.group = group
        self.layers = nn.ModuleList(Layer(shape, group) for block in blocks if block == "layer")
        self.embedding = self.norm = self.head = None
        if "embedding" in blocks:
            self.embedding = ShardedEmbedding(VOCABULARY, shape.width, group)
        if "norm" in blocks:
            self.norm = Norm(shape.width)
        if "head" in blocks:
            self.head = ColumnLinear(shape.width, VOCABULARY, group)
            if self.embedding is not None and shape.tied:
                self.head.weight = self.embedding.weight
        self.loss = "loss" in blocks

    def forward(self, x: torch.Tensor, mask: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """From tokens, or what the stage before sends, to what goes to the next, or the loss."""
        if self.embedding is not None:
            x = self.embedding(x.transpose(0, 1))
        for layer in self.layers:
            x = layer(x, mask)
        if self.norm is not None:
            x = self.norm(x)
        if self.head is not None:
            x = self.head(x)
        if not self.loss:
            return x
        loss = sharded_cross_entropy(x, targets.transpose(0, 1).contiguous(), self.group)
        return (loss.transpose(0, 1) * mask).sum(dtype=torch.float) / mask.sum()

    def copies(self) -> Iterator[nn.Parameter]:
        """Parameters that every rank of the group has, whose gradients are added up."""
        for module in self.modules():
            if isinstance(module, Norm):
                yield module.weight

    def tied_weight(self) -> nn.Parameter | None:
        """What this stage and another have in common."""
        ends = [end for end in (self.embedding, self.head) if end is not None]
        return ends[0].weight if len(ends) == 1 else None
