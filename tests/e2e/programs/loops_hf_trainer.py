"""Hugging Face's Trainer with accumulation, timed by a callback."""

from __future__ import annotations

import tempfile
import time
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

STEPS, ACCUMULATION, LENGTH, VOCABULARY = 8, 4, 64, 1000
CONFIG = GPT2Config(n_layer=2, n_embd=128, n_head=4, vocab_size=VOCABULARY, n_positions=LENGTH)


class Tokens(Dataset[dict[str, torch.Tensor]]):
    """Sequences of one token."""

    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = torch.full((LENGTH,), index)
        return {"input_ids": tokens, "labels": tokens}


class Clock(TrainerCallback):
    """From the end of a step to that of the next."""

    def __init__(self) -> None:
        self._last_s: float | None = None

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        torch.cuda.synchronize()
        now_s = time.perf_counter()
        if self._last_s is not None and state.is_world_process_zero:
            print(f"iteration {now_s - self._last_s:.9f} s", flush=True)
        self._last_s = now_s


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            output_dir=directory,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=ACCUMULATION,
            max_steps=STEPS,
            bf16=True,
            save_strategy="no",
            report_to=[],
        )
        model = AutoModelForCausalLM.from_config(CONFIG)
        trainer = Trainer(model=model, args=arguments, train_dataset=Tokens(), callbacks=[Clock()])
        trainer.train()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
