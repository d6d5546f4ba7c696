"""Accelerate's loop; what it does is said by the file that it is launched with."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from torch import nn

WIDTH, BATCH, STEPS = 256, 8, 3


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + self.layers(inputs)


def main() -> None:
    accelerator = Accelerator()
    model = nn.Sequential(Block(), Block())
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), 1e-4))
    for _ in range(STEPS):
        with accelerator.autocast():
            loss = model(torch.randn(BATCH, WIDTH, device=accelerator.device)).pow(2).mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    state = accelerator.state
    accelerator.print(
        f"{state.distributed_type.value} {state.mixed_precision} {accelerator.num_processes}"
    )
    accelerator.end_training()


if __name__ == "__main__":
    main()
