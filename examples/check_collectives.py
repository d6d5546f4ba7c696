"""Run every kind of collective on NCCL with small tensors and compare each result with gloo's.

On a node with GPUs:      torchrun --nproc-per-node 8 examples/check_collectives.py
On a virtual cluster:     phantora run --ranks 8 -- python examples/check_collectives.py

Small payloads really travel between the simulated ranks, so a program that exchanges sizes, shapes
or flags behaves as it does on hardware.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeAlias

import torch
import torch.distributed as dist

Device: TypeAlias = torch.device
Group: TypeAlias = dist.ProcessGroup


def values(device: Device, *, count: int = 6, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers that differ by rank and position and are exact in every type."""
    return (torch.arange(count) % 5 + dist.get_rank() + 1).to(dtype).to(device)


def all_reduce(device: Device, group: Group, op: dist.ReduceOp, dtype: torch.dtype) -> torch.Tensor:
    tensor = values(device, dtype=dtype)
    dist.all_reduce(tensor, op=op, group=group)
    return tensor


def broadcast(device: Device, group: Group) -> torch.Tensor:
    tensor = values(device)
    dist.broadcast(tensor, src=1, group=group)
    return tensor


def reduce(device: Device, group: Group) -> torch.Tensor | None:
    tensor = values(device)
    dist.reduce(tensor, dst=1, group=group)
    return tensor if dist.get_rank() == 1 else None


def all_gather(device: Device, group: Group) -> torch.Tensor:
    parts = [torch.empty(6, device=device) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, values(device), group=group)
    return torch.stack([part.cpu() for part in parts])


def all_gather_into_tensor(device: Device, group: Group) -> torch.Tensor:
    gathered = torch.empty(6 * dist.get_world_size(), device=device)
    dist.all_gather_into_tensor(gathered, values(device), group=group)
    return gathered


def reduce_scatter_tensor(device: Device, group: Group) -> torch.Tensor:
    mine = torch.empty(2, device=device)
    dist.reduce_scatter_tensor(mine, values(device, count=2 * dist.get_world_size()), group=group)
    return mine


def all_to_all_single(device: Device, group: Group) -> torch.Tensor:
    """Rank r sends (r + s) % 3 + 1 elements to rank s: the sizes differ by pair."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    sends = [(rank + other) % 3 + 1 for other in range(ranks)]
    receives = [(other + rank) % 3 + 1 for other in range(ranks)]
    received = torch.empty(sum(receives), device=device)
    dist.all_to_all_single(received, values(device, count=sum(sends)), receives, sends, group=group)
    return received


def scatter(device: Device, group: Group) -> torch.Tensor:
    mine = torch.empty(6, device=device)
    parts = (
        [values(device) + other for other in range(dist.get_world_size())]
        if dist.get_rank() == 0
        else None
    )
    dist.scatter(mine, parts, src=0, group=group)
    return mine


def gather(device: Device, group: Group) -> torch.Tensor | None:
    is_root = dist.get_rank() == 0
    parts = (
        [torch.empty(6, device=device) for _ in range(dist.get_world_size())] if is_root else None
    )
    dist.gather(values(device), parts, dst=0, group=group)
    return torch.stack([part.cpu() for part in parts]) if parts else None


def send_and_receive(device: Device, group: Group) -> torch.Tensor | None:
    """Even ranks send to the next odd one."""
    rank = dist.get_rank()
    if rank % 2 == 0:
        if rank + 1 < dist.get_world_size():
            dist.send(values(device), dst=rank + 1, group=group)
        return None
    received = torch.empty(6, device=device)
    dist.recv(received, src=rank - 1, group=group)
    return received


def exchange_around_ring(device: Device, group: Group) -> torch.Tensor:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    received = torch.empty(6, device=device)
    operations = [
        dist.P2POp(dist.isend, values(device), (rank + 1) % ranks, group=group),
        dist.P2POp(dist.irecv, received, (rank - 1) % ranks, group=group),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return received


def objects(device: Device, group: Group) -> list[object]:
    """Every object collective, in one list."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine = {"rank": rank, "squares": [n * n for n in range(rank + 1)], "text": "x" * rank}
    gathered: list[object] = [None] * ranks
    dist.all_gather_object(gathered, mine, group=group)
    at_root: list[object] | None = [None] * ranks if rank == 0 else None
    dist.gather_object(mine, at_root, dst=0, group=group)
    from_root: list[object] = [mine, rank] if rank == 0 else [None, None]
    dist.broadcast_object_list(from_root, src=0, group=group)
    scattered: list[object] = [None]
    dist.scatter_object_list(
        scattered, [f"to {other}" for other in range(ranks)], src=0, group=group
    )
    sent: list[object] = [mine] if rank == 0 else [None]
    if rank == 0:
        dist.send_object_list(sent, dst=1, group=group)
    elif rank == 1:
        dist.recv_object_list(sent, src=0, group=group)
    return [gathered, at_root, from_root, scattered, sent]


def check(
    name: str, run: Callable[[Device, Group], object], nccl: Group, gloo: Group, device: Device
) -> None:
    """Raises AssertionError when the two backends disagree."""
    on_gpu, on_cpu = run(device, nccl), run(Device("cpu"), gloo)
    if isinstance(on_gpu, torch.Tensor):
        torch.testing.assert_close(on_gpu.cpu(), on_cpu, msg=lambda text: f"{name}: {text}")
    else:
        assert on_gpu == on_cpu, f"{name}: {on_gpu} on NCCL, {on_cpu} on gloo"


def main() -> None:
    """Compare all, and print how many agreed."""
    device = Device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    nccl, gloo = dist.group.WORLD, dist.new_group(backend="gloo")

    plain = {
        function.__name__: function
        for function in (
            broadcast, reduce, all_gather, all_gather_into_tensor, reduce_scatter_tensor,
            all_to_all_single, scatter, gather, send_and_receive, exchange_around_ring, objects,
        )
    }  # fmt: skip
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.uint8):
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
            plain[f"all_reduce {op} {dtype}"] = lambda device, group, op=op, dtype=dtype: (
                all_reduce(device, group, op, dtype)
            )
    for name, function in plain.items():
        check(name, function, nccl, gloo, device)

    average = values(device)
    dist.all_reduce(average, op=dist.ReduceOp.AVG)
    expected = sum(torch.arange(6) % 5 + other + 1 for other in range(ranks)) / ranks
    torch.testing.assert_close(average.cpu(), expected)

    halves = [list(range(ranks // 2)), list(range(ranks // 2, ranks))]
    groups = [dist.new_group(half) for half in halves]
    mine = rank >= ranks // 2
    total = torch.tensor([rank], device=device)
    dist.all_reduce(total, group=groups[mine])
    assert total.item() == sum(halves[mine])

    split = dist.split_group(split_ranks=halves)
    total = torch.tensor([rank], device=device)
    dist.all_reduce(total, group=split)
    assert total.item() == sum(halves[mine])

    dist.barrier()
    if rank == 0:
        print(f"{len(plain) + 3} operations agree on {ranks} ranks")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
