"""A Llama of 8 B parameters' shape under DeepSpeed's ZeRO-3, with activations recomputed.

phantora run --ranks 4 --cluster h100 -- python benchmarks/host_bound_zero3.py --sequence 512
"""

from __future__ import annotations

import argparse

import deepspeed
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import phantora_py

# meta-llama/Llama-3.1-8B, config.json.
SHAPE = {
    **{"hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 128256},
    **{"num_attention_heads": 32, "num_key_value_heads": 8, "use_cache": False},
}


def main() -> None:
    """Train for a few steps; the first two learn the order of the gathers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--batch", type=int, default=4, help="sequences per GPU")
    parser.add_argument("--steps", type=int, default=7)
    options = parser.parse_args()
    config = {
        "train_micro_batch_size_per_gpu": options.batch,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-5, "torch_adam": True}},
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 3},
        "gradient_clipping": 1.0,
    }
    deepspeed.init_distributed()
    with deepspeed.zero.Init(config_dict_or_path=config):
        model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=options.layers, **SHAPE))
    model.gradient_checkpointing_enable()
    model.train()
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=config
    )
    size = (options.batch, options.sequence)
    ids = torch.zeros(size, dtype=torch.long, device=engine.device)
    for _ in range(options.steps):
        torch.cuda.synchronize()
        phantora_py.mark_iteration()
        engine.backward(engine(input_ids=ids, labels=ids).loss)
        engine.step()
    torch.cuda.synchronize()
    phantora_py.mark_iteration()
    deepspeed.comm.destroy_process_group()


if __name__ == "__main__":
    main()
