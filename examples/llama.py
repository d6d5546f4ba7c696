"""A Llama-2 decoder, small enough to read at a sitting; train_llama.py trains it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass
class LlamaConfig:
    """Shape of the model. The defaults are Llama-2 7B's."""

    layers: int = 32
    heads: int = 32
    key_value_heads: int = 32
    width: int = 4096
    hidden: int = 11008
    vocabulary: int = 32000
    sequence: int = 4096

    @property
    def head_width(self) -> int:
        return self.width // self.heads


def rotations(config: LlamaConfig, device: torch.device | None = None) -> torch.Tensor:
    """By position and pair of dimensions, the complex number that turns the pair."""
    pairs = torch.arange(0, config.head_width, 2, device=device)
    frequencies = 10000.0 ** (-pairs / config.head_width)
    angles = torch.outer(torch.arange(config.sequence, device=device), frequencies)
    return torch.polar(torch.ones_like(angles), angles)


def rotate(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """`x`: batch, position, head, dimension."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turns[:, None]).flatten(-2).type_as(x)


class Attention(nn.Module):
    """Causal self-attention with rotary positions; several heads may share a key and a value."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.head_width = config.head_width
        shared_width = config.key_value_heads * config.head_width
        self.query = nn.Linear(config.width, config.width, bias=False)
        self.key = nn.Linear(config.width, shared_width, bias=False)
        self.value = nn.Linear(config.width, shared_width, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        # Under tensor parallelism there are fewer heads here than the model has.
        query, key, value = (
            projection(x).unflatten(-1, (-1, self.head_width))
            for projection in (self.query, self.key, self.value)
        )
        query, key = rotate(query, turns), rotate(key, turns)
        attended = functional.scaled_dot_product_attention(
            *(part.transpose(1, 2) for part in (query, key, value)),
            is_causal=True,
            enable_gqa=query.shape[2] != key.shape[2],
        )
        return self.out(attended.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(config.width, config.hidden, bias=False)
        self.up = nn.Linear(config.width, config.hidden, bias=False)
        self.down = nn.Linear(config.hidden, config.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """Attention and feed-forward, each after an RMS norm."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.norm_attention = nn.RMSNorm(config.width, eps=1e-5)
        self.attention = Attention(config)
        self.norm_feed_forward = nn.RMSNorm(config.width, eps=1e-5)
        self.feed_forward = FeedForward(config)

    def forward(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm_attention(x), turns)
        return x + self.feed_forward(self.norm_feed_forward(x))


class Llama(nn.Module):
    """Embedding, decoder blocks, head; returns the logits."""

    turns: torch.Tensor

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, eps=1e-5)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.register_buffer("turns", rotations(config), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, self.turns)
        return self.head(self.norm(x))

    def initialise(self) -> None:
        """Fills parameters and buffers, which `to_empty` leaves undefined."""
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            elif isinstance(module, nn.RMSNorm):
                module.reset_parameters()
        self.turns = rotations(self.config, self.turns.device)
