"""DeepSpeed's ZeRO: `with_deepspeed.py STAGE [even]`.

`even`: a model of as many equal weights as there are ranks. ZeRO 1 and 2 cut the parameters into
equal parts, one after the other, so that each rank has one of them.
"""

from __future__ import annotations

import os
import sys

import deepspeed
import torch
from torch import nn

# The second step of ZeRO 3 does more work: it learns the order of its gathers.
WIDTH, BATCH, STEPS = 512, 16, 5


def make_model(even: bool) -> nn.Module:
    if even:
        ranks = int(os.environ["WORLD_SIZE"])
        return nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(ranks)))
    return nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))


def main() -> None:
    model = make_model(sys.argv[2:] == ["even"])
    config = {
        "train_micro_batch_size_per_gpu": BATCH,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": int(sys.argv[1])},
        "gradient_clipping": 1.0,
    }
    count = sum(one.numel() for one in model.parameters())
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=config
    )
    for _ in range(STEPS):
        inputs = torch.randn(BATCH, WIDTH, device=engine.device, dtype=torch.bfloat16)
        engine.backward(engine(inputs).float().pow(2).mean())
        engine.step()
    torch.cuda.synchronize()
    print(f"{count} parameters", flush=True)
    deepspeed.comm.destroy_process_group()


if __name__ == "__main__":
    main()
