"""Ranks that communicate for ever, until both or rank 1 do what the argument says."""

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist


def fail(how: str) -> None:
    if how == "raise":
        raise ValueError("a bad batch")
    if how == "exit":
        sys.exit(7)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "unsupported":
        ctypes.CDLL("libcudart.so.13").cudaImportExternalMemory(None, None)
    if how == "leave":
        sys.exit(0)
    if how == "device memory":
        held = []
        while True:
            held.append(torch.empty(8 << 30, dtype=torch.uint8, device="cuda"))
    if how == "host memory":
        limit_bytes = 4096 * int(Path("/proc/self/statm").read_text().split()[0]) + (1 << 28)
        resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))
        bytearray(1 << 30)
    if how == "loop":
        while True:  # for ever
            pass
    if how == "input":
        input()


def disagree(how: str, rank: int, tensor: torch.Tensor) -> None:
    """What ranks do differently, and both of them."""
    if how == "count":
        dist.all_reduce(tensor[: 10 + rank])
    if how == "type":
        dist.all_reduce(tensor.half() if rank else tensor)
    if how == "root":
        dist.broadcast(tensor, src=rank)
    if how == "kind":
        dist.broadcast(tensor, src=0) if rank else dist.all_reduce(tensor)
    if how == "send":
        dist.send(tensor, 1) if rank == 0 else dist.all_reduce(tensor)
    if how == "two groups":
        groups = [dist.new_group([0, 1]) for _ in range(2)]
        for group in reversed(groups) if rank else groups:
            dist.all_reduce(tensor, group=group)
            torch.cuda.synchronize()
    if how == "objects":
        sizes = (100_000, 3_000_000)
        for size in sizes:
            gathered = [""] * dist.get_world_size()
            dist.all_gather_object(gathered, str(dist.get_rank()) * size)
            assert gathered == [str(rank) * size for rank in range(len(gathered))]
        sys.exit(0)
    torch.cuda.synchronize()  # before it fails


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    Path(f"run-directory-{rank}").write_text(os.environ["PHANTORA_RUN_DIR"])
    gradients = torch.ones(1 << 20, device="cuda")
    step = 0
    while True:
        dist.all_reduce(gradients)
        torch.cuda.synchronize()
        if step == 3:
            disagree(sys.argv[1], rank, gradients)
        if step == 3 and rank == 1:
            fail(sys.argv[1])
        if step == 3 and rank == 0:
            print("under way", flush=True)
        step += 1


if __name__ == "__main__":
    main()
