"""PyTorch Lightning on two GPUs, in mixed precision."""

from __future__ import annotations

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WIDTH, CLASSES, LENGTH, SAMPLES, BATCH, STEPS = 256, 100, 64, 128, 8, 5


class Classifier(lightning.LightningModule):
    """Two transformer layers and a head."""

    def __init__(self) -> None:
        super().__init__()
        layers = (nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, batch_first=True) for _ in "12")
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(WIDTH, CLASSES)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        inputs, labels = batch
        return nn.functional.cross_entropy(self.head(self.layers(inputs).mean(1)), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), 1e-4)


def main() -> None:
    inputs = torch.randn(SAMPLES, LENGTH, WIDTH)
    samples = TensorDataset(inputs, torch.randint(0, CLASSES, (SAMPLES,)))
    model = Classifier()
    trainer = lightning.Trainer(
        max_steps=STEPS,
        accelerator="gpu",
        devices=2,
        strategy="ddp",
        precision="bf16-mixed",
        enable_checkpointing=False,
        enable_progress_bar=False,
        logger=False,
    )
    trainer.fit(model, DataLoader(samples, batch_size=BATCH))
    print(f"{sum(one.numel() for one in model.parameters())} parameters", flush=True)


if __name__ == "__main__":
    main()
