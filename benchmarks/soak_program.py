"""What benchmarks/soak.py runs: a small data-parallel training loop that ends its steps with a look
at the loss, and times some of them with events.

    python soak_program.py ITERATIONS
"""

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Train for so many iterations."""
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4))).cuda()
    trained = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-3)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(int(sys.argv[1])):
        begin.record()
        batch = torch.randn(32, 256).cuda(non_blocking=True)
        loss = trained(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        end.record()
        loss.item()
        begin.elapsed_time(end)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
