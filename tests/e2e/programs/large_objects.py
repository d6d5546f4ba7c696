"""Sends an object of more than 64 MiB, with a tensor in it, from rank 0 to rank 1."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

LETTERS = b"phantora" * (9 << 20)


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    if dist.get_rank() == 0:
        dist.send_object_list([{"letters": LETTERS, "tensor": torch.arange(5)}], dst=1)
    else:
        received = [None]
        dist.recv_object_list(received, src=0)
        (found,) = received
        assert found is not None
        print("the same letters:", found["letters"] == LETTERS, found["tensor"].tolist())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
