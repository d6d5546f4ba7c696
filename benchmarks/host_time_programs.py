"""The programs of host_time_counted.py: `python host_time_programs.py NAME`, on one rank.

Each runs ten iterations with a mark between. They are bound by their host on any GPU: sizes are
small, and what the host does does not depend on them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import phantora_py

ITERATIONS = 10
DEVICE = "cuda"
Step = Callable[[], object]


class Block(nn.Module):  # type: ignore[misc]
    """A transformer's layer as GPTs have it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention, then two linear layers, each added to what comes in."""
        batch, tokens, width = x.shape
        q, k, v = (
            part.view(batch, tokens, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm_1(x)).split(width, 2)
        )
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm_2(x))))


def gpt(layers: int, width: int, tokens: int) -> nn.Module:
    """Layers and a head."""
    blocks = [Block(width, width // 64) for _ in range(layers)]
    return nn.Sequential(nn.Embedding(1000, width), *blocks, nn.Linear(width, 1000)).to(DEVICE)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, tokens: int) -> Step:
    """An iteration as everybody writes it."""
    ids = torch.zeros(1, tokens, dtype=torch.long, device=DEVICE)

    def step() -> None:
        optimizer.zero_grad()
        logits = model(ids)
        nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), ids.view(-1)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def eager(layers: int, width: int, tokens: int) -> Step:
    """GPT in fp32 with AdamW."""
    model = gpt(layers, width, tokens)
    return train(model, torch.optim.AdamW(model.parameters()), tokens)


def loop() -> Step:
    """AdamW parameter by parameter."""
    parameters = [nn.Parameter(torch.ones(64, device=DEVICE)) for _ in range(200)]
    for one in parameters:
        one.grad = torch.ones_like(one)
    optimizer = torch.optim.AdamW(parameters, foreach=False)
    step: Step = optimizer.step
    return step


def fsdp2() -> Step:
    """fully_shard of every layer."""
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415 - of this program only

    model = gpt(6, 128, 64)
    for block in model:
        fully_shard(block)
    fully_shard(model)
    return train(model, torch.optim.AdamW(model.parameters()), 64)


def dtensor() -> Step:
    """Tensor parallelism by DTensor, on a mesh of one."""
    from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415
    from torch.distributed.tensor.parallel import (  # noqa: PLC0415
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh("cuda", (1,))
    layers = [nn.Sequential(nn.Linear(128, 512), nn.Linear(512, 128)) for _ in range(6)]
    model = nn.Sequential(*layers).to(DEVICE)
    for layer in layers:
        parallelize_module(layer, mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})
    inputs = torch.ones(8, 128, device=DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).sum().backward()
        optimizer.step()

    return step


def ddp() -> Step:
    """GPT under DistributedDataParallel."""
    model = nn.parallel.DistributedDataParallel(gpt(6, 128, 64))
    return train(model, torch.optim.AdamW(model.parameters(), fused=True), 64)


def hugging_face() -> Step:
    """A small Llama of transformers."""
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415

    config = LlamaConfig(
        **{"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 8},
        **{"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000},
    )
    model = LlamaForCausalLM(config).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.zeros(1, 64, dtype=torch.long, device=DEVICE)

    def step() -> None:
        optimizer.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()

    return step


def convolutions() -> Step:
    """Convolutions, batch norms and activations, as residual networks have them."""

    def unit() -> list[nn.Module]:
        return [nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()]

    layers = [layer for _ in range(20) for layer in unit()]
    model = nn.Sequential(nn.Conv2d(3, 16, 3), *layers).to(DEVICE)
    images = torch.ones(2, 3, 32, 32, device=DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        model(images).mean().backward()
        optimizer.step()

    return step


def experts() -> Step:
    """A mixture of experts with a loop over them, forward only."""
    layers = [
        nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).to(DEVICE)
        for _ in range(16)
    ]
    inputs = torch.ones(32, 64, device=DEVICE)
    router = nn.Linear(64, 16).to(DEVICE)

    def step() -> None:
        with torch.no_grad():
            weights = router(inputs).softmax(-1)
            result = torch.zeros_like(inputs)
            for number, layer in enumerate(layers):
                result = result + weights[:, number, None] * layer(inputs)

    return step


PROGRAMS: dict[str, Callable[[], Step]] = {
    "GPT small": lambda: eager(4, 128, 64),
    "GPT large": lambda: eager(24, 512, 256),
    "optimizer loop": loop,
    "DDP": ddp,
    "FSDP2": fsdp2,
    "DTensor TP": dtensor,
    "HF Llama": hugging_face,
    "convolutions": convolutions,
    "experts": experts,
}


def main(argv: list[str]) -> None:
    """Runs the program of that name."""
    os.environ.setdefault("MASTER_ADDR", "localhost")
    dist.init_process_group("nccl")
    step: Any = PROGRAMS[argv[1]]()
    for _ in range(ITERATIONS):
        torch.cuda.synchronize()
        phantora_py.mark_iteration()
        step()
    torch.cuda.synchronize()
    phantora_py.mark_iteration()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv)
