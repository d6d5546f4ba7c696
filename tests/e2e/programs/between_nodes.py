"""Collectives between nodes of one GPU: a gather of 2 MiB, a sum of 4 MiB, an incast of sends."""

from __future__ import annotations

import torch
import torch.distributed as dist

MIB = 1 << 20

dist.init_process_group("nccl")
torch.cuda.set_device(0)
rank, ranks = dist.get_rank(), dist.get_world_size()

own = torch.ones(MIB // 16, device="cuda")
gathered = torch.empty(MIB // 16 * ranks, device="cuda")
dist.all_gather_into_tensor(gathered, own)

terms = torch.zeros(MIB, device="cuda")
dist.all_reduce(terms)

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
