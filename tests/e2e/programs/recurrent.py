"""Speech recognition in small: a bidirectional LSTM and a GRU under DDP."""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

LENGTH, BATCH, FEATURES, LETTERS = 50, 16, 80, 32


class Recogniser(nn.Module):  # type: ignore[misc]
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.listen = nn.LSTM(FEATURES, hidden, 2, bidirectional=True, dropout=0.1)
        self.speak = nn.GRU(2 * hidden, hidden, batch_first=True)
        self.letters = nn.Linear(hidden, LETTERS)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        heard, _ = self.listen(sound)
        spoken, _ = self.speak(heard.transpose(0, 1))
        return self.letters(spoken)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden", type=int, default=256)
    arguments = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model = DistributedDataParallel(Recogniser(arguments.hidden).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    target = torch.zeros(BATCH * LENGTH, dtype=torch.long, device="cuda")
    for _ in range(4):
        sound = torch.randn(LENGTH, BATCH, FEATURES, device="cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            letters = model(sound)
        nn.functional.cross_entropy(letters.float().flatten(0, 1), target).backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"rank {dist.get_rank()}: {letters.shape[0]} sequences", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
