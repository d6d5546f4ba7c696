"""A small step after each batch of a data loader; prints the program's own time of one.

loads_batches.py WORKERS BATCHES
"""

from __future__ import annotations

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset[torch.Tensor]):  # type: ignore[misc]
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((64,), float(index))


if __name__ == "__main__":
    workers, batches = map(int, sys.argv[1:])
    model = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Rows(4 * batches), batch_size=4, num_workers=workers)
    for _ in range(2):
        begin = time.perf_counter()
        for rows in loader:
            model(rows.cuda()).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        print("seconds", time.perf_counter() - begin)
