"""What is moved about in large tensors, or flags made of them, decides: windows, pairs."""

from __future__ import annotations

from collections.abc import Callable

import torch

SERIES, STEPS, WINDOW = 32, 132, 36
PAIRS = 128


def windows(values: torch.Tensor) -> torch.Tensor:
    """Those of each series, one after the other, as forecasters take them."""
    series = torch.nn.functional.pad(values[:, :, :-12], (0, 12))
    return series.unfold(-1, WINDOW, 1).permute(0, 2, 3, 1).flatten(0, 1)


def between(values: torch.Tensor) -> torch.Tensor:
    """Into memory with gaps, over what was there."""
    wide = torch.zeros(*values.shape, 2).to(values.device)
    wide[..., 1] = values
    return wide


def places(values: torch.Tensor) -> torch.Tensor:
    """Of all windows that have something in their first part."""
    return torch.nonzero(windows(values)[:, :24, 1].sum(1) >= 1)


def pairs_but_oneself(labels: torch.Tensor) -> torch.Tensor:
    """How many scores that nobody knows belong to each, as contrastive losses choose them."""
    device, labels = labels.device, labels.cpu()
    alike = (labels[None] == labels[:, None]).float().to(device)
    oneself = torch.eye(PAIRS, dtype=torch.bool).to(device)
    others = alike[~oneself].view(PAIRS, -1)
    scores = torch.randn(PAIRS, 64, device=device) @ torch.randn(64, PAIRS, device=device)
    scores = scores[~oneself].view(PAIRS, -1)
    return torch.tensor([scores[part].numel() for part in (others.bool(), ~others.bool())])


def tell(name: str, work: Callable[[torch.Tensor], torch.Tensor], values: torch.Tensor) -> None:
    print(f"{name}: {torch.equal(work(values.cuda()).cpu(), work(values))}")


def main() -> None:
    numbers = (torch.arange(SERIES * 2 * STEPS) % 7 + 1).float().view(SERIES, 2, STEPS)
    tell("windows", windows, numbers)
    tell("transposed", lambda x: x.permute(2, 0, 1).contiguous(), numbers.repeat(1, 8, 1))
    tell("between", between, numbers.repeat(1, 2, 1))
    tell("places", places, numbers)
    tell("flags", lambda x: x.repeat(1, 16, 1).bool(), numbers - 1)
    tell("pairs", pairs_but_oneself, torch.arange(PAIRS // 2).repeat(2))


main()
