"""Saves shards while it trains, and loads them: `folded_checkpoint.py BACKENDS FOLDER`."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import fully_shard

WIDTH = 256


def main(backends: str, folder: str) -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backends)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(2))).cuda()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(5):
        model(torch.ones(8, WIDTH, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 1:
            weights, states = get_state_dict(model, optimizer)
            dcp.save({"model": weights, "optimizer": states}, checkpoint_id=folder)
            dcp.load({"model": weights, "optimizer": states}, checkpoint_id=folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
