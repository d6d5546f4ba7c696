"""An iteration that is one thing alone: products, copies within the GPU, or the host's launches."""

import sys

import torch

import phantora_py

large = torch.empty(8192, 8192, device="cuda", dtype=torch.bfloat16)
small = torch.empty(8, device="cuda")
for _ in range(5):
    for _ in range(10):
        if sys.argv[1] == "gemm":
            large @ large
        elif sys.argv[1] == "memory":
            large.mul_(2)
        else:
            for _ in range(20):
                small.add_(1)
    torch.cuda.synchronize()
    phantora_py.mark_iteration()
