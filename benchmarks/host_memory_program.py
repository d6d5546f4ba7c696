"""A model of Llama's shape, made on the CPU by every rank, then moved, sharded and trained.

What host_memory.py runs: with --notes DIRECTORY a rank leaves a file there with its CPU seconds for
the making of the model, and for moving and sharding it. The defaults are Llama-2-7B's (arXiv
2307.09288, table 1, and its released configuration): 6.74 billion parameters, 27 GB of fp32.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - as PyTorch's own documentation calls it
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

VOCABULARY = 32_000


class Block(nn.Module):  # type: ignore[misc]
    """Attention and gated feed-forward, without the rotation of keys, which has no parameters."""

    def __init__(self, width: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2))
        self.qkv = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(3))
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Any) -> Any:
        normed = self.norms[0](x)
        heads = (part(normed).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv)
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        normed = self.norms[1](x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Llama(nn.Module):  # type: ignore[misc]
    """Embedding, blocks, head; initialised as Hugging Face does, after PyTorch has once already."""

    def __init__(self, layers: int, width: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width, hidden, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                module.weight.data.normal_(mean=0.0, std=0.02)

    def forward(self, tokens: Any, targets: Any) -> Any:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())


def cpu_s() -> float:
    """CPU time of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Train for the given number of steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--hidden", type=int, default=11_008)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--sequence", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--notes", type=Path)
    options = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))

    marks_s = [cpu_s()]
    model = Llama(options.layers, options.width, options.hidden, options.heads)
    marks_s.append(cpu_s())
    model.cuda()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    marks_s.append(cpu_s())
    if options.notes:
        spent_s = [after - before for before, after in pairwise(marks_s)]
        (options.notes / f"rank-{dist.get_rank()}.json").write_text(json.dumps(spent_s))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    for _ in range(options.steps):
        tokens = torch.randint(VOCABULARY, (1, options.sequence), device=device)
        model(tokens, tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
