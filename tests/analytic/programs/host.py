"""Iterations that the host holds up, or not: one NVTX range a case, two ranks on two nodes."""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist

DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
HALF = torch.bfloat16
ITERATIONS = 3


def main() -> None:
    """All cases; the first iteration of each is a warm-up."""
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl", device_id=DEVICE)
    left, right, result = (torch.empty(512, 512, dtype=HALF, device=DEVICE) for _ in range(3))
    wide = [torch.empty(4096, 4096, dtype=HALF, device=DEVICE) for _ in range(3)]
    gradient = torch.empty(100_000, device=DEVICE)

    def launch_bound() -> None:
        for _ in range(50):
            torch.mm(left, right, out=result)

    def device_bound() -> None:
        for _ in range(5):
            torch.mm(wide[0], wide[1], out=wide[2])

    def turning() -> None:
        """The host falls behind while the device has long work, and is overtaken after it."""
        torch.mm(wide[0], wide[1], out=wide[2])
        for _ in range(150):
            torch.mm(left, right, out=result)

    def read_back() -> None:
        for _ in range(3):
            torch.mm(left, right, out=result)
            gradient[0].item()

    def input_bound() -> None:
        torch.mm(left, right, out=result)
        time.sleep(0.002)
        torch.mm(left, right, out=result)

    def reduced() -> None:
        dist.all_reduce(gradient)

    for case in (launch_bound, device_bound, turning, read_back, input_bound, reduced):
        for iteration in range(ITERATIONS):
            dist.barrier()
            torch.cuda.synchronize()
            with torch.cuda.nvtx.range(("" if iteration else "warm-up ") + case.__name__):
                case()
                torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
