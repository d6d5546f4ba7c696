"""DeepSpeed's Ulysses: ranks have parts of a sequence, and in attention parts of the heads."""

from __future__ import annotations

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.sequence.layer import DistributedAttention
from torch import nn

LENGTH, BATCH, WIDTH, HEADS, STEPS = 1024, 2, 512, 8, 6
CONFIGURATION = {
    "train_micro_batch_size_per_gpu": BATCH,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"torch_adam": True}},
    "zero_optimization": {"stage": 1},
}


class Local(nn.Module):
    """Of the whole sequence, (places, batch, heads, depth)."""

    def forward(self, *parts: torch.Tensor) -> torch.Tensor:
        query, key, value = (part.permute(1, 2, 0, 3) for part in parts[:3])
        found = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return found.permute(2, 0, 1, 3)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.attention = DistributedAttention(
            Local(), dist.group.WORLD, scatter_idx=2, gather_idx=0
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [part.unflatten(-1, (HEADS, -1)) for part in self.into(x).chunk(3, -1)]
        return x + self.out(self.attention(*parts, 1).flatten(-2))


def main() -> None:
    deepspeed.init_distributed()
    block = Block()
    engine, *_ = deepspeed.initialize(
        model=block, model_parameters=block.parameters(), config=CONFIGURATION
    )
    for _ in range(STEPS):
        places = LENGTH // dist.get_world_size()
        x = torch.randn(places, BATCH, WIDTH, device=engine.device, dtype=torch.bfloat16)
        loss = engine(x).float().pow(2).mean()
        engine.backward(loss)
        engine.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
