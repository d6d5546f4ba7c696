"""Causal attention whose sequence is shared out: torch.distributed.tensor's context parallel.

`context_parallel.py METHOD [REPLICAS]`: METHOD brings keys and values to the others.
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import set_rotate_method
from torch.nn.attention import SDPBackend, sdpa_kernel

BATCH, HEADS, LENGTH, WIDTH, STEPS = 2, 4, 1024, 64, 3


def main() -> None:
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    replicas = int((*sys.argv, "1")[2])
    shape = (replicas, dist.get_world_size() // replicas)
    mesh = init_device_mesh("cuda", shape, mesh_dim_names=("dp", "cp"))
    set_rotate_method(sys.argv[1])
    projection = nn.Linear(HEADS * WIDTH, 3 * HEADS * WIDTH).to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(projection.parameters())
    for _ in range(STEPS):
        tokens = torch.ones(BATCH, LENGTH, HEADS * WIDTH, device=device, dtype=torch.bfloat16)
        with (
            context_parallel(mesh["cp"], buffers=(tokens,), buffer_seq_dims=(1,)),
            sdpa_kernel(SDPBackend.FLASH_ATTENTION),
        ):
            projected = projection(tokens).view(BATCH, -1, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4)
            # Context parallel replaces this attribute of the module.
            attended = nn.functional.scaled_dot_product_attention(*projected, is_causal=True)
            attended.square().mean().backward()
        for parameter in projection.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()
    print(f"rank {dist.get_rank()}: {attended.shape[2]} of {LENGTH} tokens", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
