"""Trains adapters on a Llama with weights of four bits: bitsandbytes, peft and the Trainer."""

from __future__ import annotations

import sys

import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import (
    AutoModelForCausalLM,
    BitsAndBytesConfig,
    HfArgumentParser,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
)

VOCABULARY, LENGTH, SAMPLES = 1000, 128, 64
MODEL = LlamaConfig(
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=2,
    num_attention_heads=4,
    vocab_size=VOCABULARY,
)


def main() -> None:
    folder, *rest = sys.argv[1:]
    (arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(rest)
    LlamaForCausalLM(MODEL).save_pretrained(folder)
    quantized = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    model = AutoModelForCausalLM.from_pretrained(
        folder, quantization_config=quantized, device_map={"": 0}
    )
    model = prepare_model_for_kbit_training(model)
    model = get_peft_model(model, LoraConfig(r=8, task_type="CAUSAL_LM"))
    ids = torch.randint(VOCABULARY, (SAMPLES, LENGTH))
    Trainer(
        model, arguments, train_dataset=[{"input_ids": one, "labels": one} for one in ids]
    ).train()


if __name__ == "__main__":
    main()
