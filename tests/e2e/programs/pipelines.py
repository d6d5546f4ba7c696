"""Pipelines side by side: `pipelines.py GPipe|1F1B|hand STAGES TENSOR_PARALLEL`.

The mesh is stages x replicas x tensor-parallel ranks. `hand` sends and receives in groups of
operations (batch_isend_irecv), one micro-batch at a time.
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import get_schedule_class
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

MICRO_BATCHES, WIDTH, STEPS = 4, 256, 3


def stage_module(device: torch.device, tensor: DeviceMesh) -> nn.Module:
    module = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)).to(device)
    if tensor.size() > 1:
        plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        parallelize_module(module, tensor, plan)
    return module


def send_by_hand(module: nn.Module, inputs: torch.Tensor, mesh: DeviceMesh) -> None:
    """Forward and backward of each micro-batch, from stage to stage."""
    group, place = mesh.get_group(), mesh.get_local_rank()
    neighbours = dist.get_process_group_ranks(group)

    def exchange(call: object, tensor: torch.Tensor, peer: int) -> None:
        for work in dist.batch_isend_irecv([dist.P2POp(call, tensor, neighbours[peer], group)]):
            work.wait()

    for chunk in inputs.chunk(MICRO_BATCHES):
        received = chunk.clone().requires_grad_()
        if place > 0:
            with torch.no_grad():
                exchange(dist.irecv, received, place - 1)
        output = module(received)
        if place < mesh.size() - 1:
            exchange(dist.isend, output.detach().contiguous(), place + 1)
            gradient = torch.empty_like(output)
            exchange(dist.irecv, gradient, place + 1)
            output.backward(gradient)
        else:
            nn.functional.mse_loss(output, chunk).backward()
        if place > 0:
            exchange(dist.isend, received.grad.contiguous(), place - 1)


def main() -> None:
    schedule_name, stages, tensor = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    replicas = dist.get_world_size() // stages // tensor
    names = ("pp", "dp", "tp")
    mesh = init_device_mesh("cuda", (stages, replicas, tensor), mesh_dim_names=names)
    pipeline, data = mesh["pp"], mesh["dp"]
    place = pipeline.get_local_rank()
    module = stage_module(device, mesh["tp"])
    inputs = torch.ones(MICRO_BATCHES, WIDTH, device=device)
    schedule = None
    if schedule_name != "hand":
        stage = PipelineStage(module, place, stages, device, group=pipeline.get_group())
        kind = get_schedule_class(schedule_name)
        schedule = kind(stage, MICRO_BATCHES, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(STEPS):
        if schedule is None:
            send_by_hand(module, inputs, pipeline)
        elif place == 0:
            schedule.step(inputs)
        elif place == stages - 1:
            schedule.step(target=inputs)
        else:
            schedule.step()
        for parameter in module.parameters():
            gradient = parameter.grad
            local = gradient.to_local() if hasattr(gradient, "to_local") else gradient
            dist.all_reduce(local, group=data.get_group())
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
