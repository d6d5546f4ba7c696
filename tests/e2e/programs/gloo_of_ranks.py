"""Every collective of gloo; in a folded run of class sizes 4, ranks 0 and 1 stand for the others.

Prints what each rank that runs has got. Values are such that a rank and who stands for it agree:
rank modulo 2, so that all values are as in a run of all ranks.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp


def collectives(rank: int, size: int) -> list[object]:
    """What they give, by name."""
    own = torch.tensor([1 + rank % 2, 3])
    found: list[object] = []
    for operation in (ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX):
        value = own.clone()
        dist.all_reduce(value, operation)
        found.append(value.tolist())
    for operation in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
        value = own.clone()
        dist.all_reduce(value, operation)
        found.append(value.tolist())
    mean = own.double()
    dist.all_reduce(mean, ReduceOp.AVG)
    found.append(mean.tolist())
    value = own.clone()
    dist.broadcast(value, src=size - 1)
    found.append(value.tolist())
    values = [torch.zeros_like(own) for _ in range(size)]
    dist.all_gather(values, own)
    found.append(torch.stack(values).tolist())
    joined = torch.zeros(size * 2, dtype=own.dtype)
    dist.all_gather_into_tensor(joined, own)
    found.append(joined.tolist())
    value = own.clone()
    dist.reduce(value, dst=1)
    found.append(value.tolist() if rank == 1 else None)
    gathered = [torch.zeros_like(own) for _ in range(size)] if rank == 0 else None
    dist.gather(own, gathered, dst=0)
    found.append(torch.stack(gathered).tolist() if gathered else None)
    scattered = [own + 10 * (place % 2) for place in range(size)] if rank == 0 else None
    dist.scatter(value, scattered, src=0)
    found.append(value.tolist())
    part = torch.zeros(1, dtype=own.dtype)
    dist.reduce_scatter_tensor(part, torch.arange(size) % 2 + own[:1])
    found.append(part.tolist())
    exchanged = torch.zeros(size, dtype=own.dtype)
    dist.all_to_all_single(exchanged, torch.arange(size) % 2 + own[:1] * 10)
    found.append(exchanged.tolist())
    return found


def messages(rank: int, size: int) -> list[object]:
    """Objects, barriers, sends."""
    found: list[object] = []
    own = torch.tensor([1 + rank % 2, 3])
    objects: list[object] = [None] * size
    dist.all_gather_object(objects, {"odd": rank % 2})
    found.append(objects)
    objects = [None] * size
    dist.gather_object(rank % 2, objects if rank == 0 else None, dst=0)
    found.append(objects if rank == 0 else None)
    dist.barrier()
    dist.monitored_barrier()
    if rank < 2:
        peer = torch.tensor([rank])
        works = [dist.isend(peer, 1 - rank), dist.irecv(own[:1], 1 - rank)]
        for work in works:
            work.wait()
        found.append(own.tolist())
        batch = [dist.P2POp(dist.isend, peer, 1 - rank), dist.P2POp(dist.irecv, own[1:], 1 - rank)]
        for work in dist.batch_isend_irecv(batch):
            work.wait()
        found.append(own.tolist())
    return found


def main() -> None:
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    odd = dist.new_group(range(1, size, 2))
    pairs = [dist.new_group([first, first + 1]) for first in range(0, size, 2)]
    torch.ones(1, device="cuda")  # ranks drive a GPU
    found = collectives(rank, size) + messages(rank, size)
    value = torch.tensor([rank % 2 + 5])
    if rank % 2:
        dist.all_reduce(value, group=odd)
    dist.all_reduce(value, group=pairs[rank // 2])
    found.append(value.tolist())
    print(f"rank {rank}: {found}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
