"""Collectives between nodes of one GPU: a small gather, a large sum, and an incast of sends."""

from __future__ import annotations

import torch
import torch.distributed as dist

MIB = 1 << 20

dist.init_process_group("nccl")
torch.cuda.set_device(0)
rank, ranks = dist.get_rank(), dist.get_world_size()

small = torch.ones(4096, device="cuda")
gathered = torch.empty(4096 * ranks, device="cuda")
dist.all_gather_into_tensor(gathered, small)

large = torch.zeros(16 * MIB, device="cuda")
dist.all_reduce(large)

part = torch.zeros(MIB // 4, device="cuda")
if rank == 0:
    parts = [torch.zeros_like(part) for _ in range(ranks - 1)]
    receives = [dist.P2POp(dist.irecv, one, peer) for peer, one in enumerate(parts, start=1)]
    for work in dist.batch_isend_irecv(receives):
        work.wait()
else:
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, part, 0)]):
        work.wait()
torch.cuda.synchronize()
dist.destroy_process_group()
