"""Perceptrons under tensor and sequence parallel, and FSDP2 on the mesh's other dimension."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

WIDTH, LAYERS, BATCH, LENGTH, STEPS = 256, 2, 2, 128, 3


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def main() -> None:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    ranks = dist.get_world_size()
    mesh = init_device_mesh("cuda", (ranks // 2, 2), mesh_dim_names=("data", "tensor"))
    model = nn.Sequential(*(Block() for _ in range(LAYERS))).to(device)
    for block in model:
        parallelize_module(
            block,
            mesh["tensor"],
            {
                "norm": SequenceParallel(),
                "up": ColwiseParallel(input_layouts=Shard(1)),
                "down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
            },
        )
        parallelize_module(
            block,
            mesh["tensor"],
            PrepareModuleInput(
                input_layouts=(Shard(1),), desired_input_layouts=(Shard(1),), use_local_output=False
            ),
        )
        fully_shard(block, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        inputs = torch.ones(BATCH, LENGTH // 2, WIDTH, device=device)
        model(inputs).to_local().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"rank {dist.get_rank()}: done", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
