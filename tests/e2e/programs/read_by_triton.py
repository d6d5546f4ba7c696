"""A kernel that the program writes in Triton reads small numbers; the program decides by them."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def double(numbers, doubled, changed, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Reads the first, writes the second, does both with the third."""
    at = tl.arange(0, block)
    tl.store(doubled + at, 2 * tl.load(numbers + at))
    tl.store(changed + at, tl.load(changed + at) + 1)


labels = torch.tensor([3, 1, 4, 1], device="cuda")
doubled = torch.zeros_like(labels)
changed = labels.clone()
double[(1,)](labels, doubled, changed, 4)
print(labels.tolist(), (labels == 1).sum().item())
doubled.tolist()
changed.tolist()


@torch.compile  # type: ignore[untyped-decorator]
def scaled(values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Compiled by Inductor, which makes one kernel of Triton of it."""
    return torch.relu(values) * lengths


scaled(torch.ones(4, device="cuda"), labels)
print(labels.tolist())
