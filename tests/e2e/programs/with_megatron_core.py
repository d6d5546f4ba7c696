"""Megatron-Core's GPT, tensor parallel by two and data parallel."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.distributed import (
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer.transformer_config import TransformerConfig

LAYERS, WIDTH, HEADS, VOCABULARY, LENGTH, BATCH, MICROBATCHES, STEPS = 2, 256, 4, 2048, 128, 2, 2, 4

Loss = tuple[torch.Tensor, dict[str, torch.Tensor]]


def batches() -> Iterator[dict[str, torch.Tensor]]:
    """The same tokens again and again."""
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH), device="cuda")
    mask = torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool, device="cuda").triu(1)
    positions = torch.arange(LENGTH, device="cuda").expand(BATCH, LENGTH)
    while True:
        yield {
            "input_ids": tokens,
            "labels": tokens,
            "position_ids": positions,
            "attention_mask": mask,
        }


def forward_step(
    data: Iterator[dict[str, torch.Tensor]], model: Any
) -> tuple[torch.Tensor, Callable[[torch.Tensor], Loss]]:
    """As Megatron's schedules want it."""
    losses = model(**next(data))

    def mean(losses: torch.Tensor) -> Loss:
        loss = losses.float().mean()
        return loss, {"loss": loss}

    return losses, mean


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=2)
    model_parallel_cuda_manual_seed(1)
    config = TransformerConfig(
        num_layers=LAYERS,
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        bf16=True,
        params_dtype=torch.bfloat16,
    )
    model = GPTModel(config, get_gpt_layer_local_spec(), VOCABULARY, LENGTH).cuda().bfloat16()
    parallel = DistributedDataParallel(config, DistributedDataParallelConfig(), model)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    data = batches()
    for _ in range(STEPS):
        parallel.zero_grad_buffer()
        losses = get_forward_backward_func()(
            forward_step_func=forward_step,
            data_iterator=data,
            model=parallel,
            num_microbatches=MICROBATCHES,
            seq_length=LENGTH,
            micro_batch_size=BATCH,
            forward_only=False,
        )
        finalize_model_grads([parallel])
        for parameter in model.parameters():
            parameter.grad = parameter.main_grad.to(parameter.dtype)
        optimizer.step()
        # Of values that nobody knows.
        print(losses, flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
