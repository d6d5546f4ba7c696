"""Prints what every rank's number comes to in small collectives."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    objects: list[object] = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank})
    total = torch.tensor([rank + 1.0], device="cuda")
    dist.all_reduce(total)
    mine = torch.arange(float(ranks), device="cuda") + 10 * rank
    exchanged = torch.empty_like(mine)
    dist.all_to_all_single(exchanged, mine)
    gathered: list[object] | None = [None] * ranks if rank == 0 else None
    dist.gather_object({"rank": rank}, gathered, dst=0)
    received: list[object] = [None]
    dist.scatter_object_list(received, [f"to {one}" for one in range(ranks)], src=0)
    dist.barrier()
    print(f"rank {rank}: {received}")
    if rank == 0:
        print([one["rank"] for one in gathered or []])  # type: ignore[index]
        print([one["rank"] for one in objects], total.item(), exchanged.tolist())  # type: ignore[index]
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
