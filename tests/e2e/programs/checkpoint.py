"""Saves a sharded model, loads it into another one, goes on: `checkpoint.py FOLDER`."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

WIDTH, LAYERS, BATCH = 256, 3, 8


def make(device: torch.device) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))).to(device)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    for _ in range(2):
        model(torch.ones(BATCH, WIDTH, device=device)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def main() -> None:
    folder = sys.argv[1]
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl", device_id=device)
    model, optimizer = make(device)
    train(model, optimizer, device)
    weights, states = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": states}, checkpoint_id=folder)
    saving = dcp.async_save({"model": weights, "optimizer": states}, checkpoint_id=f"{folder}-2")
    saving.result()

    model, optimizer = make(device)
    weights, states = get_state_dict(model, optimizer)
    dcp.load({"model": weights, "optimizer": states}, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=states)
    steps = {float(state["step"]) for state in optimizer.state.values()}
    train(model, optimizer, device)
    print(f"rank {dist.get_rank()}: went on from step {steps}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
