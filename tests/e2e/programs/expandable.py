"""Copies, collectives and graphs of tensors that lie across several mappings of device memory, if
PYTORCH_CUDA_ALLOC_CONF says expandable_segments:True. Prints what a program sees of it.
"""

from __future__ import annotations

import json
import os

import torch
import torch.distributed as dist

MIB = 1 << 20
ROUNDS = 120  # more than the addresses of a process would allow if none came back


def of_mib(size_mib: int) -> torch.Tensor:
    return torch.zeros(size_mib * MIB, dtype=torch.uint8, device="cuda")


def copy_all_ways() -> None:
    large = of_mib(100)
    other = large.clone()
    onto = torch.empty(300 * MIB, dtype=torch.uint8, device="cuda")
    onto.fill_(3)
    onto[50 * MIB : 150 * MIB].copy_(other)
    host = torch.ones(16 * MIB)
    host.cuda().cpu()
    host.pin_memory().cuda(non_blocking=True)
    onto.view(100, -1)[:, :MIB].copy_(other.view(100, -1))  # rows apart


def communicate() -> None:
    gradients = torch.ones(64 * MIB, device="cuda")
    dist.all_reduce(gradients)
    gathered = torch.empty(2 * gradients.numel(), device="cuda")
    dist.all_gather_into_tensor(gathered, gradients)
    other = 1 - dist.get_rank()
    into = gathered[: gradients.numel()]
    work = [dist.P2POp(dist.isend, gradients, other), dist.P2POp(dist.irecv, into, other)]
    for one in dist.batch_isend_irecv(work):
        one.wait()


def replay() -> None:
    source = of_mib(40)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = of_mib(40)
        captured.copy_(source)
        captured.zero_()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()


def grow_and_shrink() -> None:
    for size_mib in range(4, 4 + ROUNDS):
        tensors = [of_mib(size_mib) for _ in range(3)]
        del tensors
        torch.cuda.empty_cache()


def read_values() -> list[list[int]]:
    """Small values that lie where memory was mapped and unmapped before."""
    small = [torch.arange(n, device="cuda") for n in (3, 5)]
    total = torch.tensor([dist.get_rank() + 1, 4], device="cuda")
    dist.all_reduce(total)
    values = [one.tolist() for one in (*small, total)]
    filler = of_mib(64)
    del filler
    torch.cuda.empty_cache()
    return [*values, small[1].tolist()]


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    before = read_values()
    copy_all_ways()
    communicate()
    replay()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    grow_and_shrink()
    found = {
        "values": [*before, *read_values()],
        "expandable": any(one["is_expandable"] for one in torch.cuda.memory_snapshot()),
        "peak_allocated_mib": torch.cuda.max_memory_allocated() // MIB,
        "peak_reserved_mib": torch.cuda.max_memory_reserved() // MIB,
        "reserved_mib": torch.cuda.memory_reserved() // MIB,
    }
    if dist.get_rank() == 0:
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
