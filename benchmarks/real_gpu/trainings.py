"""Iteration times and peak memory of training steps on this GPU.

    python trainings.py OUT.json [NAME ...]                                  on a real GPU
    phantora run --ranks 1 -- python trainings.py OUT.json [NAME ...]        on a simulated one

OUT has, by name: `steps_s`, the clock's time of each step that counts, synchronised at its end;
`ahead_s`, of several steps without synchronisation in between; `issued_s`, how long the host was
busy with one of these; `allocated` and `reserved` bytes at the peak; and of one step under the
profiler the kernels, by name as [number, ns].
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from more_training_cases import MORE_CASES
from torch.profiler import ProfilerActivity, profile
from training_cases import CASES

ALL_CASES = CASES | MORE_CASES
WARM, STEPS, AHEAD = 4, 8, 8

Step = Callable[[], object]


def observe(step: Step) -> dict[str, object]:
    """What the steps show."""
    for _ in range(WARM):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    steps_s = []
    for _ in range(STEPS):
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        steps_s.append(time.perf_counter() - start)
    allocated, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    start = time.perf_counter()
    for _ in range(AHEAD):
        step()
    issued_s = (time.perf_counter() - start) / AHEAD
    torch.cuda.synchronize()
    ahead_s = (time.perf_counter() - start) / AHEAD
    return {
        **{"steps_s": steps_s, "ahead_s": ahead_s, "issued_s": issued_s},
        **{"allocated": allocated, "reserved": reserved, "kernels": kernels_of(step)},
    }


def kernels_of(step: Step) -> dict[str, tuple[int, int]]:
    """By name, their number and time in ns."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        step()
        torch.cuda.synchronize()
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for event in profiler.profiler.kineto_results.events():
        if event.device_type() == torch.autograd.DeviceType.CUDA and event.duration_ns() > 0:
            found[event.name()][0] += 1
            found[event.name()][1] += event.duration_ns()
    return {name: (number, total) for name, (number, total) in found.items()}


def main() -> None:
    """Observe the cases that are named, or all."""
    out, chosen = Path(sys.argv[1]), sys.argv[2:] or list(ALL_CASES)
    found: dict[str, Any] = {}
    for name in chosen:
        torch.manual_seed(0)
        torch.cuda.reset_peak_memory_stats()
        try:
            with torch.device("cuda"):
                step = ALL_CASES[name]()
            found[name] = observe(step)
            del step
        except (RuntimeError, TypeError, ValueError, AttributeError, ImportError) as error:
            found[name] = repr(error)[:500]
            print(name, found[name])
        else:
            print(name, f"{1e3 * found[name]['ahead_s']:.2f} ms", flush=True)
        gc.collect()
        torch._dynamo.reset()
        torch.cuda.empty_cache()
        out.write_text(json.dumps({"gpu": torch.cuda.get_device_name(), "trainings": found}))


if __name__ == "__main__":
    main()
