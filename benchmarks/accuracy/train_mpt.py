"""Train an MPT with FSDP as llm-foundry and Composer did it for the published runs of 2023.

    phantora run -- torchrun --nproc-per-node 8 benchmarks/accuracy/train_mpt.py --model 1b

Composer's facts (mosaicml/composer, composer/trainer): mixed precision DEFAULT and PURE both keep
parameters and gradients in bf16 while they travel (before composer#2628), autocast around, every
module that holds weights is a unit, gathers are limited, the next unit is fetched after the
gradients of the one before (BACKWARD_POST), gradients are reduced for every micro-batch,
checkpointing is not reentrant, the optimizer works tensor by tensor. Two metrics of the logits are
computed for every micro-batch (they could be switched off from llm-foundry#642 on).
"""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from mpt import SHAPES, VOCABULARY, Block, LowPrecisionNorm, Mpt, TiedEmbedding
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from torch.distributed.fsdp import (
    BackwardPrefetch,
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
)
from torch.distributed.fsdp.wrap import CustomPolicy
from torch.nn import functional

METRICS = 2  # LanguageCrossEntropy and LanguagePerplexity


class DecoupledAdamW(torch.optim.Optimizer):
    """Adam with a decay of its own, one tensor after the other, as Composer's was. The published
    runs had no decay.
    """

    def __init__(
        self,
        parameters: Iterable[torch.Tensor],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.95),
    ) -> None:
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": 1e-8})

    def step(self, closure: Callable[[], float] | None = None) -> None:
        assert closure is None
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self._update(parameter, group)

    def _update(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state.update(
                step=0, mean=torch.zeros_like(parameter), square=torch.zeros_like(parameter)
            )
        state["step"] += 1
        first, second = group["betas"]
        grad = parameter.grad
        state["mean"].mul_(first).add_(grad, alpha=1 - first)
        state["square"].mul_(second).addcmul_(grad, grad, value=1 - second)
        root = (1 - second ** state["step"]) ** 0.5
        size = (state["square"].sqrt() / root).add_(group["eps"])
        parameter.addcdiv_(state["mean"], size, value=-group["lr"] / (1 - first ** state["step"]))


class _LeanCrossEntropy(torch.autograd.Function):
    """Keeps nothing but the logits, as the loss of flash-attn (xentropy) that was used does; that
    one takes four passes over them, this one six.
    """

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(logits, targets)
        return functional.cross_entropy(logits, targets)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        logits, targets = ctx.saved_tensors
        grad_logits = torch.softmax(logits, -1)
        counted = targets != -100
        rows = torch.arange(targets.shape[0], device=targets.device)
        grad_logits[rows, targets.clamp(min=0)] -= counted.to(logits.dtype)
        return grad_logits.mul_((grad / counted.sum() * counted).unsqueeze(-1)), None


def sharded(model: Mpt, device: torch.device, checkpoint: bool) -> FullyShardedDataParallel:
    """The model on all ranks, a unit per block, embedding and norm."""
    if checkpoint:
        wrapper = functools.partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.NO_REENTRANT)
        apply_activation_checkpointing(
            model, checkpoint_wrapper_fn=wrapper, check_fn=lambda one: isinstance(one, Block)
        )
    units = {*model.blocks, model.tokens, model.positions, model.norm}
    return FullyShardedDataParallel(
        model,
        auto_wrap_policy=CustomPolicy(lambda one: one in units),
        sharding_strategy=ShardingStrategy.FULL_SHARD,
        mixed_precision=MixedPrecision(
            param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16
        ),
        backward_prefetch=BackwardPrefetch.BACKWARD_POST,
        limit_all_gathers=True,
        use_orig_params=True,
        device_id=device,
        param_init_fn=functools.partial(materialise, device=device),
    )


def materialise(module: nn.Module, device: torch.device) -> None:
    """Values are of no consequence; every module starts as PyTorch starts it."""
    module.to_empty(device=device, recurse=False)
    if isinstance(module, (nn.Linear, LowPrecisionNorm, TiedEmbedding, nn.Embedding)):
        module.reset_parameters()


def micro_batch(model: nn.Module, tokens: torch.Tensor, share: float) -> torch.Tensor:
    """Forward, backward and metrics of one micro-batch. Returns the loss, for the log."""
    targets = torch.roll(tokens, shifts=-1)
    targets[:, -1] = -100
    targets = targets.flatten()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(tokens).flatten(0, 1)
    loss = _LeanCrossEntropy.apply(logits, targets)  # in bf16; autocast would raise the precision
    (loss * share).backward()
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        for _ in range(METRICS):
            functional.cross_entropy(logits, targets, reduction="sum")
    return loss.detach() * share


def main() -> None:
    """Train for the given number of steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=SHAPES, default="1b")
    parser.add_argument("--sequence", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=8, help="sequences per rank and micro-batch")
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches per step")
    parser.add_argument("--checkpoint", action="store_true", help="recompute activations")
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)

    with torch.device("meta"):
        bare = Mpt(SHAPES[options.model], options.sequence)
    model = sharded(bare, device, options.checkpoint)
    optimizer = DecoupledAdamW(model.parameters(), lr=2e-4)
    for step in range(options.steps):
        shape = (options.accumulate, options.batch, options.sequence)
        tokens = torch.randint(VOCABULARY, shape, device=device)
        optimizer.zero_grad()
        losses = [micro_batch(model, part, 1 / options.accumulate) for part in tokens]
        model.clip_grad_norm_(1.0)
        optimizer.step()
        total = torch.stack(losses).sum()
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            print(f"step {step}: loss {total.item() / dist.get_world_size():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
