"""Reads its clocks before and after it uses a GPU, which makes it a rank."""

from __future__ import annotations

import time

import torch

WAITED_S = 0.3
CLOCKS = time.time, time.monotonic, time.perf_counter

before_s = [clock() for clock in CLOCKS]
time.sleep(WAITED_S)
torch.ones(8).cuda().sum().item()
after_s = [clock() for clock in CLOCKS]
lasted_s = [after - before for after, before in zip(after_s, before_s, strict=True)]
print("lasted", *lasted_s, flush=True)
