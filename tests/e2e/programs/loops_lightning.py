"""PyTorch Lightning, timed by a callback: `loops_lightning.py two_optimizers | accumulating`."""

from __future__ import annotations

import sys
import time
from typing import Any

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WIDTH, SAMPLES, BATCH, ACCUMULATION = 256, 256, 8, 2


class TwoOptimizers(lightning.LightningModule):
    """Each steps once for a batch, by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def training_step(self, batch: list[torch.Tensor], _: int) -> None:
        for module, optimizer in zip((self.first, self.second), self.optimizers(), strict=True):
            optimizer.zero_grad()
            self.manual_backward(module(batch[0]).square().mean())
            optimizer.step()

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        return [
            torch.optim.SGD(self.first.parameters(), 0.1),
            torch.optim.AdamW(self.second.parameters(), 1e-4),
        ]


class Accumulating(lightning.LightningModule):
    """One step for several batches."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(4)))

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        return self.layers(batch[0]).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), 1e-4)


class Clock(lightning.Callback):
    """From the end of an iteration to that of the next."""

    def __init__(self, batches: int) -> None:
        self._batches = batches
        self._last_s: float | None = None

    def on_train_batch_end(
        self, trainer: Any, module: Any, outputs: Any, batch: Any, number: int
    ) -> None:
        if (number + 1) % self._batches:
            return
        torch.cuda.synchronize()
        now_s = time.perf_counter()
        if self._last_s is not None and trainer.global_rank == 0:
            print(f"iteration {now_s - self._last_s:.9f} s", flush=True)
        self._last_s = now_s


def main() -> None:
    accumulates = sys.argv[1] == "accumulating"
    batches = ACCUMULATION if accumulates else 1
    trainer = lightning.Trainer(
        max_epochs=1,
        limit_train_batches=8 * batches,
        accumulate_grad_batches=batches,
        accelerator="gpu",
        devices=2,
        strategy="ddp" if accumulates else "ddp_find_unused_parameters_true",
        callbacks=[Clock(batches)],
        enable_checkpointing=False,
        enable_progress_bar=False,
        logger=False,
    )
    data = TensorDataset(torch.ones(SAMPLES, WIDTH))
    model = Accumulating() if accumulates else TwoOptimizers()
    trainer.fit(model, DataLoader(data, batch_size=BATCH))


if __name__ == "__main__":
    main()
