"""Barriers of gloo, right after work for the GPU has been issued."""

import torch
import torch.distributed as dist

BARRIERS = 8


def main() -> None:
    """A thread of gloo sends while another spins on the lock that it holds: none of them sleeps."""
    dist.init_process_group("gloo")
    dist.barrier()  # who connected to whom, and is later for it, depends on the kernel's ports
    for _ in range(BARRIERS):
        torch.zeros(1, device="cuda")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
