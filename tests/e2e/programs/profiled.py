"""A data-parallel training loop under torch.profiler: `off`, `on`, or `cpu` for the host alone.

    profiled.py WHICH FOLDER

Writes `trace-RANK.json` into the folder, and what the profiler sums up as `averages-RANK.json`.
"""

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function, schedule

which, folder = sys.argv[1], Path(sys.argv[2])
rank = int(os.environ.get("RANK", "0"))
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)
layers = [torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 256)]
model = DistributedDataParallel(torch.nn.Sequential(*layers).cuda())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
side = torch.cuda.Stream()


def train() -> float:
    """One step, with work on two streams, copies both ways and a fill."""
    optimizer.zero_grad(set_to_none=False)
    batch = torch.ones(32, 256).pin_memory().cuda(non_blocking=True)
    with torch.cuda.stream(side):
        torch.zeros(1 << 20, dtype=torch.uint8, device="cuda")
    with record_function("forward"):
        loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    return float(loss.item())


def keep(profiler: profile) -> None:
    """What the first active window has shown."""
    path = folder / f"trace-{rank}.json"
    if path.exists():
        return
    profiler.export_chrome_trace(str(path))
    rows = {one.key: one.device_time_total for one in profiler.key_averages()}
    (folder / f"averages-{rank}.json").write_text(json.dumps(rows))


activities = [ProfilerActivity.CPU]
if which != "cpu":
    activities.append(ProfilerActivity.CUDA)
profiler = profile(
    activities=activities,
    schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
    on_trace_ready=keep,
    record_shapes=True,
    profile_memory=True,
    with_stack=True,
)
with nullcontext() if which == "off" else profiler:
    for _ in range(9):
        train()
        if which != "off":
            profiler.step()
dist.destroy_process_group()
