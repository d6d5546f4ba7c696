"""Lookups of rows that repeat more or less.

Prints a line for each kind of indices: how many different rows, or `unknown`, and the time of the
second of two lookups in us of virtual time.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

ROWS, DIM, LOOKUPS, POOLING = 1_000_000, 128, 65_536, 32


def timed(module: nn.Module, *inputs: Tensor) -> float:
    """Of the second of two: the first one loads kernels."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(2):
        begin.record()
        module(*inputs)
        end.record()
    torch.cuda.synchronize()
    return float(1000 * begin.elapsed_time(end))


def main() -> None:
    """Uniform, of few rows, of one row, and of rows that only the GPU knows."""
    torch.manual_seed(0)
    bags = nn.EmbeddingBag(ROWS, DIM, mode="sum", device="cuda")
    offsets = torch.arange(0, LOOKUPS, POOLING, device="cuda")
    batches = {
        "uniform": torch.randint(0, ROWS, (LOOKUPS,)),
        "few": torch.randint(0, 1000, (LOOKUPS,)),
        "one": torch.full((LOOKUPS,), 7),
    }
    for name, indices in batches.items():
        print(name, len(indices.unique()), timed(bags, indices.cuda(), offsets), flush=True)
    hidden = (torch.randn(LOOKUPS, device="cuda").abs() * 1000).long()
    print("hidden", "unknown", timed(bags, hidden, offsets), flush=True)


if __name__ == "__main__":
    main()
