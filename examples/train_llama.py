"""Train a Llama-2 decoder with FSDP2, HSDP, tensor parallelism, or what they combine to.

The ranks form a grid of REPLICATE x FSDP x TP: `--tp` ranks share the products of a layer, `--fsdp`
groups of them share its parameters, and what is left are replicas. Ranks of one TP group are
neighbours, so that they lie within a node.

    --fsdp 8               FSDP2 on 8 ranks
    --fsdp 4               HSDP: on 8 ranks, 2 replicas of 4 shards
    --tp 8                 tensor and sequence parallel
    --tp 4 --fsdp 2        both
    --tp 4 --fsdp 1        on 8 ranks, tensor parallel with 2 replicas

On a node with GPUs:      torchrun --nproc-per-node 8 examples/train_llama.py --fsdp 8
On a virtual cluster:     phantora run --ranks 8 -- python examples/train_llama.py --fsdp 8
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time

import torch
import torch.distributed as dist
from llama import Llama, LlamaConfig
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
)
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """The model, what a step takes of it, and tensor parallelism. The defaults are Llama-2 7B's."""
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--hidden", type=int, default=11008)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--key-value-heads", type=int, help="as many as --heads unless told")
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--sequence", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=1, help="sequences per TP group and step")
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--checkpoint", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--steps", type=int, default=5)


def config_of(options: argparse.Namespace) -> LlamaConfig:
    """The shape that the command line has."""
    return LlamaConfig(
        layers=options.layers,
        heads=options.heads,
        key_value_heads=options.key_value_heads or options.heads,
        width=options.width,
        hidden=options.hidden,
        vocabulary=options.vocabulary,
        sequence=options.sequence,
    )


def make_mesh(fsdp: int | None, tp: int) -> DeviceMesh:
    """The grid of ranks. Dimensions of size one are left out, but for one that FSDP2 can wrap."""
    ranks = dist.get_world_size()
    fsdp = fsdp or ranks // tp
    sizes = {"replicate": ranks // (fsdp * tp), "shard": fsdp, "tp": tp}
    if sizes["replicate"] * fsdp * tp != ranks:
        raise SystemExit(f"{ranks} ranks are no multiple of --fsdp {fsdp} x --tp {tp}")
    kept = {name: size for name, size in sizes.items() if size > 1}
    if set(kept) <= {"tp"}:
        kept = {"shard": 1, **kept}
    return init_device_mesh("cuda", tuple(kept.values()), mesh_dim_names=tuple(kept))


def apply_tensor_parallel(model: Llama, mesh: DeviceMesh) -> None:
    """Splits the products over `mesh`; between them the activations are split along the sequence.

    The head leaves logits split along the vocabulary, which is what `loss_parallel` wants.
    """
    split = Shard(1)
    whole_input = PrepareModuleInput(input_layouts=(split,), desired_input_layouts=(Replicate(),))
    whole_first = PrepareModuleInput(
        input_layouts=(split, None), desired_input_layouts=(Replicate(), None)
    )
    for block in model.blocks:
        plan = {
            "norm_attention": SequenceParallel(),
            "attention": whole_first,
            "attention.query": ColwiseParallel(),
            "attention.key": ColwiseParallel(),
            "attention.value": ColwiseParallel(),
            "attention.out": RowwiseParallel(output_layouts=split),
            "norm_feed_forward": SequenceParallel(),
            "feed_forward": whole_input,
            "feed_forward.gate": ColwiseParallel(),
            "feed_forward.up": ColwiseParallel(),
            "feed_forward.down": RowwiseParallel(output_layouts=split),
        }
        parallelize_module(block, mesh, plan)
    plan = {
        "tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=split),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(
            input_layouts=split, output_layouts=Shard(-1), use_local_output=False
        ),
    }
    # A stage of a pipeline has a part of them.
    parallelize_module(
        model, mesh, {name: how for name, how in plan.items() if hasattr(model, name)}
    )


def apply_data_parallel(model: Llama, mesh: DeviceMesh, **how: bool) -> None:
    """Shards every block over `mesh`, or replicates it, or both over two dimensions (HSDP).

    Either computes in bf16, also where there is one shard only. `how`: more for `fully_shard`.
    """
    wrap = fully_shard
    if mesh.mesh_dim_names == ("replicate",):
        # PyTorch has it since 2.9, and the other layouts do without.
        from torch.distributed._composable.replicate_with_fsdp import replicate  # noqa: PLC0415

        wrap = replicate
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for module in (*model.blocks, model):
        wrap(module, mesh=mesh, mp_policy=policy, **how)


def make_model(config: LlamaConfig, mesh: DeviceMesh, checkpoint: bool) -> Llama:
    """The model on this rank's device; no rank ever holds it whole."""
    with torch.device("meta"):
        model = Llama(config)
    if "tp" in mesh.mesh_dim_names:
        apply_tensor_parallel(model, mesh["tp"])
    if checkpoint:
        blocks = set(model.blocks)
        apply_activation_checkpointing(model, check_fn=lambda module: module in blocks)
    apply_data_parallel(model, mesh[tuple(name for name in mesh.mesh_dim_names if name != "tp")])
    model.to_empty(device="cuda")
    model.initialise()
    return model


def main() -> None:
    """Train for the given number of steps and print the throughput and peak memory."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_model_options(parser)
    parser.add_argument("--fsdp", type=int, help="all ranks that --tp leaves unless told")
    options = parser.parse_args()
    config = config_of(options)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    rank, tp_groups = dist.get_rank(), dist.get_world_size() // options.tp
    mesh = make_mesh(options.fsdp, options.tp)

    torch.manual_seed(0)
    model = make_model(config, mesh, options.checkpoint)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    generator = torch.Generator().manual_seed(rank // options.tp)
    shape = (options.batch, options.sequence + 1)
    for step in range(options.steps):
        started = time.perf_counter()
        tokens = torch.randint(options.vocabulary, shape, generator=generator).to(device)
        with loss_parallel() if options.tp > 1 else contextlib.nullcontext():
            logits = model(tokens[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss_value = loss.item()
        seconds = time.perf_counter() - started
        if rank == 0:
            tokens_per_step = options.batch * options.sequence * tp_groups
            memory_gib = torch.cuda.max_memory_reserved() / 2**30
            print(
                f"step {step}: loss {loss_value:.3f}, {seconds:.4f} s, "
                f"{tokens_per_step / seconds:,.0f} tokens/s, {memory_gib:.2f} GiB reserved"
            )

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
