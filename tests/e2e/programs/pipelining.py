"""A pipeline of linear layers by torch.distributed.pipelining: `pipelining.py SCHEDULE STAGES`.

Ranks have STAGES / ranks stages each; a batch of 8 goes through in micro-batches of 1.
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, get_schedule_class

MICRO_BATCHES, WIDTH, STEPS = 8, 256, 3


def main() -> None:
    schedule_class, stage_count = get_schedule_class(sys.argv[1]), int(sys.argv[2])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    rank, ranks = dist.get_rank(), dist.get_world_size()

    mine = range(rank, stage_count, ranks)
    modules = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()).to(device) for _ in mine]
    stages = [
        PipelineStage(module, index, stage_count, device)
        for module, index in zip(modules, mine, strict=True)
    ]
    several = issubclass(schedule_class, PipelineScheduleMulti)
    schedule = schedule_class(
        stages if several else stages[0], MICRO_BATCHES, loss_fn=nn.functional.mse_loss
    )
    parameters = [parameter for module in modules for parameter in module.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    inputs = torch.ones(MICRO_BATCHES, WIDTH, device=device)

    for _ in range(STEPS):
        losses: list[torch.Tensor] = []
        arguments = (inputs,) if rank == 0 else ()
        if (stage_count - 1) in mine:
            schedule.step(*arguments, target=inputs, losses=losses)
        else:
            schedule.step(*arguments)
        optimizer.step()
        optimizer.zero_grad()
    print(f"rank {rank}: {len(losses)} losses", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
