"""Ranks that communicate for ever, until rank 1 does what the argument says."""

import ctypes
import os
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
        if step == 3 and rank == 1:
            fail(sys.argv[1])
        if step == 3 and rank == 0:
            print("under way", flush=True)
        step += 1


if __name__ == "__main__":
    main()
