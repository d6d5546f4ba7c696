"""What `chosen_iterations.py` imports, late."""

from __future__ import annotations

import torch
from torch import nn


def make_model(layers: int = 6, width: int = 2048) -> nn.Module:
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(layers))).cuda()


def sample() -> torch.Tensor:
    return torch.randn(512, 2048, device="cuda")


class Trainer:
    """A model, and ways to train it that are called as users do."""

    def __init__(self) -> None:
        self.model = make_model()
        self.optimizer = torch.optim.AdamW(self.model.parameters())

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model(sample()).mean().backward()
        self.optimizer.step()

    @staticmethod
    def both(first: Trainer, second: Trainer) -> None:
        first.step()
        second.step()

    @classmethod
    def made(cls, trainer: Trainer) -> Trainer:
        assert cls is Trainer
        trainer.step()
        return trainer


def two_steps(trainer: Trainer) -> None:
    trainer.step()
    trainer.step()
