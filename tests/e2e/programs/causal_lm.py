"""Trains a small Llama by Hugging Face's Trainer; all of its arguments are the Trainer's own."""

from __future__ import annotations

import torch
from torch.utils.data import Dataset
from transformers import (
    AutoModelForCausalLM,
    HfArgumentParser,
    LlamaConfig,
    Trainer,
    TrainingArguments,
)

VOCABULARY, LENGTH, WIDTH = 1000, 128, 128


class Tokens(Dataset[dict[str, torch.Tensor]]):
    """Sequences of random tokens."""

    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(0, VOCABULARY, (LENGTH,), generator=generator)
        return {"input_ids": tokens, "labels": tokens}


def main() -> None:
    (arguments,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
    config = LlamaConfig(
        num_hidden_layers=2,
        hidden_size=WIDTH,
        intermediate_size=3 * WIDTH,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=VOCABULARY,
        max_position_embeddings=LENGTH,
    )
    model = AutoModelForCausalLM.from_config(config)
    trainer = Trainer(model=model, args=arguments, train_dataset=Tokens())
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
