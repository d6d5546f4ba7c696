"""Train a Llama decoder in pipeline stages, each with tensor parallelism and FSDP2.

The ranks form a grid of STAGES x SHARDS x TP: `--tp` ranks share the products of a layer, groups of
them share the parameters of a stage, and stages lie furthest apart. A step takes `--micro-batches`
through the stages, one forward and one backward in turn (1F1B).

On two nodes with GPUs:   torchrun ... examples/train_llama_pipeline.py --tp 8
On a virtual cluster:     phantora run --ranks 16 -- python examples/train_llama_pipeline.py --tp 8
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time

import torch
import torch.distributed as dist
from llama import Llama, LlamaConfig
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
)
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn import functional
from train_llama import add_model_options, apply_data_parallel, apply_tensor_parallel, config_of


class Stage(Llama):
    """The part of a model that one stage has: some blocks, and what comes before or after all."""

    def __init__(self, config: LlamaConfig, place: int, stages: int) -> None:
        super().__init__(config)
        first, last = (round(config.layers * end / stages) for end in (place, place + 1))
        self.blocks = nn.ModuleList(list(self.blocks)[first:last])
        if place > 0:
            del self.tokens
        if place < stages - 1:
            del self.norm, self.head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x`: tokens in the first stage, activations in the others."""
        if hasattr(self, "tokens"):
            x = self.tokens(x)
        for block in self.blocks:
            x = block(x, self.turns)
        return self.head(self.norm(x)) if hasattr(self, "head") else x


def make_stage(config: LlamaConfig, mesh: DeviceMesh, checkpoint: bool) -> Stage:
    """This rank's stage on its device; no rank ever holds a stage whole."""
    with torch.device("meta"):
        stage = Stage(config, mesh["pp"].get_local_rank(), mesh["pp"].size())
    if mesh["tp"].size() > 1:
        apply_tensor_parallel(stage, mesh["tp"])
    if checkpoint:
        blocks = set(stage.blocks)
        apply_activation_checkpointing(stage, check_fn=lambda module: module in blocks)
    # All micro-batches of a step use the same parameters: they stay until it ends.
    apply_data_parallel(stage, mesh["shard"], reshard_after_forward=False)
    stage.to_empty(device="cuda")
    stage.initialise()
    return stage


def loss_of(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The loss of one micro-batch."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main() -> None:
    """Train for the given number of steps and print the throughput and peak memory."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_model_options(parser)
    parser.add_argument("--pp", type=int, default=2, help="pipeline stages")
    parser.add_argument("--micro-batches", type=int, help="per step; twice the stages unless told")
    options = parser.parse_args()
    config = config_of(options)
    micro_batches = options.micro_batches or 2 * options.pp
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    shards = dist.get_world_size() // (options.pp * options.tp)
    names = ("pp", "shard", "tp")
    mesh = init_device_mesh("cuda", (options.pp, shards, options.tp), mesh_dim_names=names)
    pipeline = mesh["pp"]
    place, last = pipeline.get_local_rank(), options.pp - 1

    torch.manual_seed(0)
    model = make_stage(config, mesh, options.checkpoint)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    stage = PipelineStage(model, place, options.pp, device, group=pipeline.get_group())
    schedule = Schedule1F1B(stage, micro_batches, loss_fn=loss_of)

    generator = torch.Generator().manual_seed(mesh["shard"].get_local_rank())
    shape = (options.batch * micro_batches, options.sequence + 1)
    for step in range(options.steps):
        started = time.perf_counter()
        tokens = torch.randint(options.vocabulary, shape, generator=generator).to(device)
        losses: list[torch.Tensor] = []
        with loss_parallel() if options.tp > 1 else contextlib.nullcontext():
            if place == last:
                schedule.step(target=tokens[:, 1:], losses=losses)
            elif place == 0:
                schedule.step(tokens[:, :-1])
            else:
                schedule.step()
        optimizer.step()
        optimizer.zero_grad()
        if place < last:
            continue
        loss = torch.stack(losses).mean().item()
        seconds = time.perf_counter() - started
        if dist.get_rank() == dist.get_world_size() - options.tp * shards:
            tokens_per_step = shape[0] * options.sequence * shards
            memory_gib = torch.cuda.max_memory_reserved() / 2**30
            print(
                f"step {step}: loss {loss:.3f}, {seconds:.4f} s, "
                f"{tokens_per_step / seconds:,.0f} tokens/s, {memory_gib:.2f} GiB reserved"
            )

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
