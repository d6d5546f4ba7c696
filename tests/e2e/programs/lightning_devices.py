"""Lightning's Trainer starts its own workers: `lightning_devices.py N` for N GPUs."""

from __future__ import annotations

import sys

import lightning
import torch
from lightning.pytorch.demos import Transformer
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCABULARY, LENGTH, BATCH, STEPS = 1000, 35, 16, 8


class Sequences(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Random tokens, and the tokens that follow them."""

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(0, VOCABULARY, (LENGTH + 1,), generator=generator)
        return tokens[:-1], tokens[1:]


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = Transformer(vocab_size=VOCABULARY, nlayers=2)

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _number: int) -> torch.Tensor:
        inputs, targets = batch
        return nn.functional.nll_loss(self.model(inputs, targets), targets.flatten())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main() -> None:
    trainer = lightning.Trainer(
        accelerator="gpu",
        devices=int(sys.argv[1]),
        max_steps=STEPS,
        precision="bf16-mixed",
        logger=False,
    )
    trainer.fit(Model(), DataLoader(Sequences(), BATCH, num_workers=1))


if __name__ == "__main__":
    main()
