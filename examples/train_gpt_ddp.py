"""Train a GPT with DistributedDataParallel.

On a node with GPUs:      torchrun --nproc-per-node 8 examples/train_gpt_ddp.py
On a virtual cluster:     phantora run --cluster h100 --ranks 8 -- python examples/train_gpt_ddp.py
"""

from __future__ import annotations

import contextlib
import os
import time

import torch
import torch.distributed as dist
from gpt import Gpt, RandomTokens, argument_parser, gpt_config
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


def main() -> None:
    """Train for the given number of steps and print the throughput."""
    parser = argument_parser(__doc__)
    parser.add_argument(
        "--bucket", type=float, help="MiB of a bucket; as PyTorch has it if not told"
    )
    options = parser.parse_args()
    config = gpt_config(options)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(0)
    model = DistributedDataParallel(
        Gpt(config).to(device), device_ids=[device.index], bucket_cap_mb=options.bucket
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    dataset = RandomTokens(config, options.steps * options.accumulate * options.batch * ranks)
    sampler = DistributedSampler(dataset, shuffle=False)
    loader = DataLoader(dataset, options.batch, sampler=sampler, num_workers=2, pin_memory=True)
    batches = iter(loader)

    for step in range(options.steps):
        started = time.perf_counter()
        for micro_batch in range(options.accumulate):
            tokens, targets = (part.to(device, non_blocking=True) for part in next(batches))
            is_last = micro_batch == options.accumulate - 1
            with contextlib.nullcontext() if is_last else model.no_sync():
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = model(tokens, targets)
                (loss / options.accumulate).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss_value = loss.item()
        seconds = time.perf_counter() - started
        if rank == 0:
            tokens_per_step = options.batch * options.accumulate * options.sequence * ranks
            print(
                f"step {step}: loss {loss_value:.3f}, {seconds:.4f} s, "
                f"{tokens_per_step / seconds:,.0f} tokens/s"
            )

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
