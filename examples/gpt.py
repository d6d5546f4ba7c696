"""A GPT decoder and its data, small enough to read at a sitting; the training examples share it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset


@dataclass
class GptConfig:
    """Shape of the model. The defaults are GPT-2 small's."""

    layers: int = 12
    heads: int = 12
    width: int = 768
    vocabulary: int = 50304
    sequence: int = 1024


class Block(nn.Module):
    """Attention and feed-forward, each after a layer norm."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.norm_attention = nn.LayerNorm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.projection = nn.Linear(config.width, config.width)
        self.norm_mlp = nn.LayerNorm(config.width)
        self.up = nn.Linear(config.width, 4 * config.width)
        self.down = nn.Linear(4 * config.width, config.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, sequence, width = x.shape
        qkv = self.qkv(self.norm_attention(x)).view(
            batch, sequence, 3, self.heads, width // self.heads
        )
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(batch, sequence, width))
        return x + self.down(functional.gelu(self.up(self.norm_mlp(x))))


class Gpt(nn.Module):
    """Token and position embedding, decoder blocks, language-model head; returns the loss."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.sequence, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class RandomTokens(Dataset):
    """Sequences of random tokens, the same for the same index."""

    def __init__(self, config: GptConfig, samples: int) -> None:
        self.config = config
        self.samples = samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(
            self.config.vocabulary, (self.config.sequence + 1,), generator=generator
        )
        return tokens[:-1], tokens[1:]


def argument_parser(description: str) -> argparse.ArgumentParser:
    """The options that both training examples have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--vocabulary", type=int, default=50304)
    parser.add_argument("--sequence", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=8, help="sequences per rank and micro-batch")
    parser.add_argument(
        "--accumulate", type=int, default=2, help="micro-batches per optimizer step"
    )
    parser.add_argument("--steps", type=int, default=10)
    return parser


def gpt_config(options: argparse.Namespace) -> GptConfig:
    """The model's shape from the command line."""
    return GptConfig(
        layers=options.layers,
        heads=options.heads,
        width=options.width,
        vocabulary=options.vocabulary,
        sequence=options.sequence,
    )
