"""Ranks that take as many MiB of their host's memory as the argument says, and then train."""

import sys

import torch
import torch.distributed as dist

taken = bytearray(b"x") * (int(sys.argv[1]) << 20)
torch.cuda.set_device(0)
dist.init_process_group("nccl")
gradients = torch.ones(1 << 20, device="cuda")
for _ in range(1000):
    dist.all_reduce(gradients)
    torch.cuda.synchronize()
print("rank", dist.get_rank(), "has", len(taken) >> 20, "MiB")
dist.destroy_process_group()
