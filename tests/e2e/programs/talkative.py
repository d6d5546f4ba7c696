"""Steps that end with a collective; rank 1 prints so many bytes in each, itself and by a child."""

import subprocess
import sys

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)
values = torch.ones(1 << 16, device="cuda")
line = "x" * 99
for _ in range(4):
    dist.all_reduce(values)
    torch.cuda.synchronize()
    if rank == 1:
        for _ in range(int(sys.argv[1]) // 100):
            print(line)
        subprocess.run(["head", "-c", sys.argv[1], "/dev/zero"], check=True)
    torch.cuda.synchronize()
    dist.barrier()
dist.destroy_process_group()
