"""Forward and backward pass of a Hugging Face model in fp32, timed as sitar-lab/NeuSight does: with
an allocator that was emptied before, and events around each pass.

phantora run --ranks 1 --cluster h100 -- python benchmarks/host_bound_hugging_face.py \\
    --model bert_large --sequence 512 --batch 2
"""

from __future__ import annotations

import argparse
import gc

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForPreTraining,
    BertConfig,
    GPT2Config,
    OPTConfig,
)

import phantora_py

# scripts/asplos/data/DLmodel_configs of sitar-lab/NeuSight@6945927.
CONFIGS = {
    "bert_large": BertConfig(
        hidden_size=1024, num_attention_heads=16, num_hidden_layers=24, intermediate_size=4096
    ),
    "gpt2_large": GPT2Config(n_embd=1280, n_head=20, n_layer=36, n_positions=1024),
    "opt_13": OPTConfig(
        **{"hidden_size": 2048, "ffn_dim": 8192, "num_attention_heads": 32},
        **{"num_hidden_layers": 24, "word_embed_proj_dim": 2048},
    ),
}
STEPS = 4


def timed(act: object, events: list[torch.cuda.Event]) -> float:
    """What of `act` lies between two events, in seconds."""
    assert callable(act)
    events[0].record()
    act()
    events[1].record()
    torch.cuda.synchronize()
    return float(events[0].elapsed_time(events[1])) / 1e3


def main() -> None:
    """Prints the sum of both passes, the least of the steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=CONFIGS, required=True)
    parser.add_argument("--sequence", type=int, required=True)
    parser.add_argument("--batch", type=int, default=1)
    options = parser.parse_args()
    kind = AutoModelForPreTraining if "bert" in options.model else AutoModelForCausalLM
    model = kind.from_config(CONFIGS[options.model], attn_implementation="eager").train().cuda()
    ids = torch.ones(options.batch, options.sequence, dtype=torch.long, device="cuda")
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    found: list[torch.Tensor] = []

    def forward() -> None:
        result = model(ids)
        logits = result["prediction_logits"] if "prediction_logits" in result else result["logits"]
        found.append(logits)

    times_s = []
    for _ in range(STEPS):
        gc.collect()
        torch.cuda.empty_cache()
        phantora_py.mark_iteration()
        time_s = timed(forward, events)
        logits = found.pop().view(-1, model.config.vocab_size)
        loss = torch.nn.functional.cross_entropy(logits, ids.view(-1))
        del logits
        times_s.append(time_s + timed(loss.backward, events))
    phantora_py.mark_iteration()
    print(f"took {min(times_s)} s", flush=True)


if __name__ == "__main__":
    main()
