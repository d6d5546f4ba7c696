"""DeepSpeed's ZeRO, timed by its own clock: `loops_deepspeed.py STAGE ACCUMULATION`."""

from __future__ import annotations

import sys
import time

import deepspeed
import torch
from torch import nn

WIDTH, DEPTH, BATCH, STEPS = 256, 6, 8, 6


def main() -> None:
    stage, accumulation = map(int, sys.argv[1:])
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)))
    config = {
        "train_micro_batch_size_per_gpu": BATCH,
        "gradient_accumulation_steps": accumulation,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
        "bf16": {"enabled": True},
        # A layer is a group of its own, for which the optimizer steps by itself in stage 3.
        "zero_optimization": {"stage": stage, "sub_group_size": WIDTH * WIDTH},
    }
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=config
    )
    for _ in range(STEPS):
        begin_s = time.perf_counter()
        for _ in range(accumulation):
            inputs = torch.ones(BATCH, WIDTH, device=engine.device, dtype=torch.bfloat16)
            engine.backward(engine(inputs).float().pow(2).mean())
            engine.step()
        torch.cuda.synchronize()
        if engine.global_rank == 0:
            print(f"iteration {time.perf_counter() - begin_s:.9f} s", flush=True)
    deepspeed.comm.destroy_process_group()


if __name__ == "__main__":
    main()
