"""FullyShardedDataParallel: `fsdp1.py full | flat | hybrid | offload`.

`flat`: the optimizer gets flat parameters, of 64,770 elements, which 4 ranks do not divide.
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffload, FullyShardedDataParallel, ShardingStrategy
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

LAYERS, WIDTH, STEPS = 3, 256, 3


def main() -> None:
    mode = sys.argv[1]
    width = WIDTH - 2 * (mode == "flat")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    mesh = init_device_mesh("cuda", (2, dist.get_world_size() // 2)) if mode == "hybrid" else None
    model = FullyShardedDataParallel(
        nn.Sequential(*(nn.Linear(width, width) for _ in range(LAYERS))),
        sharding_strategy=getattr(ShardingStrategy, f"{'HYBRID' if mesh else 'FULL'}_SHARD"),
        device_mesh=mesh,
        cpu_offload=CPUOffload(offload_params=mode == "offload"),
        auto_wrap_policy=ModuleWrapPolicy({nn.Linear}),
        device_id=device,
        use_orig_params=mode != "flat",
    )
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        model(torch.ones(8, width, device=device)).sum().backward()
        model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
    devices = {str(parameter.device.type) for parameter in model.parameters()}
    print(f"rank {dist.get_rank()}: parameters on {', '.join(devices)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
