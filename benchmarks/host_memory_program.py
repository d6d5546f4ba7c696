"""Makes the examples' Llama on the CPU of every rank, moves it, shards it and trains a few steps.

What host_memory.py runs. The defaults are Llama-2-7B's shape: 27 GB of fp32 on every rank. With
--notes DIRECTORY a rank leaves a file there with its CPU seconds for the making of the model, and
for moving and sharding it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
from itertools import pairwise
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional

sys.path.append(str(Path(__file__).parents[1] / "examples"))
from llama import Llama, LlamaConfig


def cpu_s() -> float:
    """CPU time of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--hidden", type=int, default=11_008)
    parser.add_argument("--sequence", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--notes", type=Path)
    return parser.parse_args()


def main() -> None:
    """Train for the given number of steps."""
    options = parse_options()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    config = LlamaConfig(
        layers=options.layers,
        width=options.width,
        hidden=options.hidden,
        sequence=options.sequence,
    )

    marks_s = [cpu_s()]
    model = Llama(config)
    model.initialise()
    marks_s.append(cpu_s())
    model.cuda()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    marks_s.append(cpu_s())
    if options.notes:
        spent_s = [after - before for before, after in pairwise(marks_s)]
        (options.notes / f"rank-{dist.get_rank()}.json").write_text(json.dumps(spent_s))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    for _ in range(options.steps):
        tokens = torch.randint(config.vocabulary, (1, options.sequence), device=device)
        logits = model(tokens)
        functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
