"""All-to-alls of which each rank sends another amount, to some ranks nothing."""

from __future__ import annotations

import torch
import torch.distributed as dist

ROUNDS = 3


def main() -> None:
    dist.init_process_group("nccl")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(rank)
    for turn in range(ROUNDS):
        sent = [1000 * (rank * peer + turn) for peer in range(size)]
        received = [1000 * (peer * rank + turn) for peer in range(size)]
        given = torch.zeros(sum(sent), device="cuda")
        found = torch.empty(sum(received), device="cuda")
        dist.all_to_all_single(found, given, received, sent)
        (given + 1).sum()
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
