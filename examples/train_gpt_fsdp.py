"""Train a GPT with FSDP2 (fully_shard), mixed precision and activation checkpointing.

On a node with GPUs:      torchrun --nproc-per-node 8 examples/train_gpt_fsdp.py
On a virtual cluster:     phantora run -- torchrun --nproc-per-node 8 examples/train_gpt_fsdp.py
"""

from __future__ import annotations

import argparse
import os
import time

import torch
import torch.distributed as dist
from gpt import Gpt, RandomTokens, argument_parser, gpt_config
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.data import DataLoader, DistributedSampler


def main() -> None:
    """Train for the given number of steps and print the throughput and peak memory."""
    parser = argument_parser(__doc__)
    parser.add_argument("--checkpoint", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    config = gpt_config(options)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cuda", (ranks,))

    torch.manual_seed(0)
    with torch.device("meta"):
        model = Gpt(config)
    if options.checkpoint:
        apply_activation_checkpointing(model, check_fn=lambda module: module in set(model.blocks))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    model.to_empty(device=device)
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    dataset = RandomTokens(config, options.steps * options.accumulate * options.batch * ranks)
    sampler = DistributedSampler(dataset, shuffle=False)
    loader = DataLoader(dataset, options.batch, sampler=sampler, num_workers=2, pin_memory=True)
    batches = iter(loader)

    for step in range(options.steps):
        started = time.perf_counter()
        for micro_batch in range(options.accumulate):
            tokens, targets = (part.to(device, non_blocking=True) for part in next(batches))
            model.set_requires_gradient_sync(micro_batch == options.accumulate - 1)
            loss = model(tokens, targets)
            (loss / options.accumulate).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss_value = loss.item()
        seconds = time.perf_counter() - started
        if rank == 0:
            tokens_per_step = options.batch * options.accumulate * options.sequence * ranks
            memory_gib = torch.cuda.max_memory_reserved() / 2**30
            print(
                f"step {step}: loss {loss_value:.3f}, {seconds:.4f} s, "
                f"{tokens_per_step / seconds:,.0f} tokens/s, {memory_gib:.2f} GiB reserved"
            )

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
