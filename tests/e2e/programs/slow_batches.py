"""A data loader whose worker computes for a while, in reality: `slow_batches.py SECONDS`."""

import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset


def real_s() -> float:
    """A clock that no process of a run has by another way."""
    return float(Path("/proc/uptime").read_text().split()[0])


class Slow(Dataset[torch.Tensor]):  # type: ignore[misc]
    """One sample."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> torch.Tensor:
        end_s = real_s() + float(sys.argv[1])
        while real_s() < end_s:
            pass
        return torch.ones(4)


if __name__ == "__main__":
    torch.ones(4, device="cuda")
    start_s = time.monotonic()
    for batch in DataLoader(Slow(), num_workers=1, pin_memory=True):
        batch.cuda()
    print(f"waited {time.monotonic() - start_s:.6f} s", flush=True)
