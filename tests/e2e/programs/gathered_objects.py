"""Objects of unequal sizes, which PyTorch pads; and padding that a kernel has written after all."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    own = {"rank": rank, "letters": "x" * (10 + 100_000 * rank)}
    gathered: list[dict[str, object]] = [{}] * ranks
    dist.all_gather_object(gathered, own)
    print("all", [len(str(one["letters"])) for one in gathered], flush=True)
    at_first: list[dict[str, object]] = [{}] * ranks
    dist.gather_object(own, at_first if rank == 0 else None)
    print("first", [one.get("rank") for one in at_first])
    scattered: list[object] = [None]
    objects: list[object] = [(one, "x" * (10 + 500 * one)) for one in range(ranks)]
    dist.scatter_object_list(scattered, objects if rank == 0 else None)
    print("own", scattered[0][0])  # type: ignore[index]

    grown = torch.arange(4, device="cuda").resize_(8)
    grown[6:].copy_(products())
    print("written", grown.tolist()[:4])  # with two unknown numbers
    dist.destroy_process_group()


def products() -> torch.Tensor:
    """Of matrices, which nobody computes."""
    return (torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda"))[0].long()


if __name__ == "__main__":
    main()
