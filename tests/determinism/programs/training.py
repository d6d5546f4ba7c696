"""A little of everything whose order differs from run to run: data loaders, pinned memory, autograd
threads, watchdogs, several streams, blocks that wait for another stream, DDP and FSDP2.

Prints what the first rank's own clock says.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
WIDTH, LAYERS, BATCH, STEPS = 256, 4, 8, 4


def layers() -> nn.Sequential:
    return nn.Sequential(
        *(nn.TransformerEncoderLayer(WIDTH, 4, batch_first=True) for _ in range(LAYERS))
    ).to(DEVICE)


def batches(workers: int) -> Iterator[list[torch.Tensor]]:
    data = TensorDataset(torch.randn(BATCH * STEPS, 16, WIDTH))
    return iter(DataLoader(data, BATCH, num_workers=workers, pin_memory=True))


def train(name: str, model: nn.Module, workers: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    side = torch.cuda.Stream()
    began_ns = time.perf_counter_ns()
    for step, (batch,) in enumerate(batches(workers)):
        with torch.cuda.stream(side):
            inputs = batch.to(DEVICE, non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        inputs.record_stream(torch.cuda.current_stream())
        loss = model(inputs).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
        if step % 2:
            time.sleep(0.0005)
        if dist.get_rank() == 0:
            print(f"{name} {step}: {time.perf_counter_ns() - began_ns} ns", flush=True)


def main() -> None:
    """DDP, then FSDP2 on the same ranks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    options, _ = parser.parse_known_args()
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl")
    replicated = DistributedDataParallel(layers(), [DEVICE.index], bucket_cap_mb=1)
    train("ddp", replicated, options.workers)
    everything: list[object] = [None] * dist.get_world_size()
    dist.all_gather_object(everything, {"rank": dist.get_rank()})
    sharded = layers()
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    for layer in sharded:
        fully_shard(layer, mesh=mesh)
    train("fsdp", fully_shard(sharded, mesh=mesh), options.workers)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
