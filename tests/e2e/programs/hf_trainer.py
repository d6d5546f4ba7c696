"""Hugging Face's Trainer on a small model made from a config: `hf_trainer.py gpt2 | llama`."""

from __future__ import annotations

import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    PreTrainedConfig,
    Trainer,
    TrainingArguments,
)

LAYERS, WIDTH, HEADS, VOCABULARY, LENGTH, BATCH, STEPS = 2, 128, 4, 1000, 128, 4, 5


class Tokens(Dataset[dict[str, torch.Tensor]]):
    """Sequences of random tokens."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(0, VOCABULARY, (LENGTH,), generator=generator)
        return {"input_ids": tokens, "labels": tokens}


def config(name: str) -> PreTrainedConfig:
    """Of a model with a few small layers."""
    if name == "gpt2":
        return GPT2Config(
            n_layer=LAYERS, n_embd=WIDTH, n_head=HEADS, vocab_size=VOCABULARY, n_positions=LENGTH
        )
    return LlamaConfig(
        num_hidden_layers=LAYERS,
        hidden_size=WIDTH,
        intermediate_size=3 * WIDTH,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS // 2,
        vocab_size=VOCABULARY,
        max_position_embeddings=LENGTH,
    )


def main() -> None:
    model = AutoModelForCausalLM.from_config(config(sys.argv[1]))
    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            output_dir=directory,
            per_device_train_batch_size=BATCH,
            gradient_accumulation_steps=2,
            gradient_checkpointing=True,
            max_steps=STEPS,
            bf16=True,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            dataloader_num_workers=1,
        )
        trainer = Trainer(model=model, args=arguments, train_dataset=Tokens())
        result = trainer.train()
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{result.global_step} steps, {count} parameters", flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
