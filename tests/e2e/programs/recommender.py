"""A model like DLRM (arXiv:1906.00091): tables shared out by hand, the dense part under DDP."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.nn.functional import all_to_all_single
from torch.nn.parallel import DistributedDataParallel

TABLES, ROWS, WIDTH, BAG, DENSE, BATCH, STEPS = 8, 5000, 64, 10, 13, 256, 4


class Dense(nn.Module):
    """Both perceptrons, and the products of all pairs of features between them."""

    def __init__(self) -> None:
        super().__init__()
        self.bottom = nn.Sequential(
            nn.Linear(DENSE, 128), nn.ReLU(), nn.Linear(128, WIDTH), nn.ReLU()
        )
        pairs = (TABLES + 1) * TABLES // 2
        self.top = nn.Sequential(nn.Linear(WIDTH + pairs, 128), nn.ReLU(), nn.Linear(128, 1))
        self.register_buffer("pairs", torch.tril_indices(TABLES + 1, TABLES + 1, offset=-1))

    def forward(self, features: torch.Tensor, embedded: torch.Tensor) -> torch.Tensor:
        bottom = self.bottom(features)
        together = torch.cat([bottom.unsqueeze(1), embedded], dim=1)
        products = together @ together.transpose(1, 2)
        interactions = products[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([bottom, interactions], dim=1)).squeeze(1)


def main() -> None:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    ranks = dist.get_world_size()
    local = TABLES // ranks
    tables = nn.ModuleList(nn.EmbeddingBag(ROWS, WIDTH, mode="sum") for _ in range(local))
    tables = tables.to(device)
    dense = DistributedDataParallel(Dense().to(device), device_ids=[device.index])
    optimizers = [
        torch.optim.Adagrad(tables.parameters(), lr=0.01),
        torch.optim.AdamW(dense.parameters()),
    ]
    offsets = torch.arange(0, ranks * BATCH * BAG, BAG, device=device)
    for _ in range(STEPS):
        # The whole batch's bags of our tables, our part of the batch for all else.
        bags = torch.randint(0, ROWS, (local, ranks * BATCH * BAG)).to(device)
        features = torch.randn(BATCH, DENSE, device=device)
        clicks = torch.randint(0, 2, (BATCH,)).float().to(device)
        looked_up = torch.stack(
            [table(bag, offsets) for table, bag in zip(tables, bags, strict=True)]
        )
        outgoing = looked_up.view(local, ranks, BATCH, WIDTH).transpose(0, 1).contiguous()
        incoming = all_to_all_single(torch.empty_like(outgoing), outgoing)
        embedded = incoming.view(TABLES, BATCH, WIDTH).transpose(0, 1)
        loss = nn.functional.binary_cross_entropy_with_logits(dense(features, embedded), clicks)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    print(f"rank {dist.get_rank()}: loss {loss.item()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
