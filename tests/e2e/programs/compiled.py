"""A compiled model under DistributedDataParallel or fully_shard: `compiled.py ddp|fsdp [MODE]`, and
not compiled with the mode `eager`.

Tells its last step's time.
"""

import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

WIDTH, STEPS = 128, 3


class Block(torch.nn.Module):  # type: ignore[misc]
    """Dynamo compiles the forward of a user's class, not that of torch.nn's own containers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.up = torch.nn.Linear(WIDTH, WIDTH)
        self.down = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """The block's output, as large as its input."""
        return data + self.down(torch.nn.functional.gelu(self.up(self.norm(data))))


def main(wrapper: str, mode: str | None = None) -> None:
    """Trains for some steps."""
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    model = Block().cuda()
    sharded = fully_shard(model) if wrapper == "fsdp" else DistributedDataParallel(model)
    compiled = sharded if mode == "eager" else torch.compile(sharded, mode=mode)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.randn(64, WIDTH, device="cuda")
    for _ in range(STEPS):
        begin = time.perf_counter()
        compiled(data).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        duration_s = time.perf_counter() - begin
    print(f"rank {dist.get_rank()}: last step {1e6 * duration_s:.0f} us")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
