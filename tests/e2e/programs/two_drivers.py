"""A thread of rank 0 waits for a collective, and another one, which has asked the GPU since, waits
for rank 1 by a store. The collective is too large for its values to move.
"""

from __future__ import annotations

import threading
import time

import torch
import torch.distributed as dist

ELEMENTS = 1 << 20


def reduce(large: torch.Tensor) -> None:
    dist.all_reduce(large)
    torch.cuda.synchronize()
    print("reduced", flush=True)


def beside(store: dist.Store) -> None:
    torch.cuda.set_device(0)
    time.sleep(0.5)
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.Event().record()
        torch.ones(1, device="cuda").item()
        store.set("begun", "yes")
        store.wait(["ended"])
        print(f"told {torch.ones(1, device='cuda').item()}", flush=True)


def main() -> None:
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank)
    store = dist.distributed_c10d._get_default_store()
    large = torch.ones(ELEMENTS, device="cuda")
    dist.all_reduce(large)
    torch.cuda.synchronize()
    if rank == 0:
        other = threading.Thread(target=beside, args=(store,))
        other.start()
        reduce(large)
        other.join()
    else:
        store.wait(["begun"])
        reduce(large)
        store.set("ended", "yes")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
