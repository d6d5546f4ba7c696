"""Prints how long the host of rank 0 takes for an all-to-all of equal parts, which is one call of
NCCL, and for one of parts of any size, which is a send and a receive for each rank.
"""

from __future__ import annotations

import json
import time

import torch
import torch.distributed as dist

ROUNDS = 5

dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank)
tokens = torch.zeros(size, 64, device="cuda")
found = torch.empty_like(tokens)


def host_ns(parts: list[int] | None) -> int:
    """Of all in turn; the first ones also prepare."""
    for turn in range(2 * ROUNDS):
        if turn == ROUNDS:
            torch.cuda.synchronize()
            start_ns = time.perf_counter_ns()
        dist.all_to_all_single(found, tokens, parts, parts)
    return time.perf_counter_ns() - start_ns


equal_ns, any_ns = host_ns(None), host_ns([1] * size)
if rank == 0:
    print(json.dumps({"equal": equal_ns, "any": any_ns}))
dist.destroy_process_group()
