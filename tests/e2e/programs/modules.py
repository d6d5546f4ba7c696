"""A model with a module that fails and one that it has twice."""

from __future__ import annotations

import torch
from torch import nn


class Broken(nn.Module):  # type: ignore[misc]
    """Multiplies, and fails."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError(f"{(x * 2).shape}")


class Scale(nn.Module):  # type: ignore[misc]
    """One kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


class Net(nn.Module):  # type: ignore[misc]
    """One kernel of its own, one of what fails, and two of what it has twice."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = self.twin = Scale()
        self.broken = Broken()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.twin(self.shared(x))
        try:
            self.broken(x)
        except ValueError:
            x = x + 1
        return x


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.zeros(1 << 20, device="cuda")
for _ in range(5):
    model(data).sum().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
