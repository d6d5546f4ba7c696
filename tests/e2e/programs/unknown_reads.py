"""Reads values that nobody computed: one an iteration, and one more in every other on rank 1."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 8


def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DistributedDataParallel(nn.Linear(256, 256).cuda())
    optimizer = torch.optim.SGD(model.parameters())
    for step in range(STEPS):
        loss = model(torch.randn(64, 256, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()  # on every rank
        if dist.get_rank() == 1 and step % 2:
            loss.item()  # on one rank
    dist.destroy_process_group()


main()
