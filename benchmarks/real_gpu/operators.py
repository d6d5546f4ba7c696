"""What the kernels of PyTorch's operators take on this GPU, one after the other.

    python operators.py OUT.json [PART ...]                                  on a real GPU
    phantora run --ranks 1 -- python operators.py OUT.json [PART ...]        on a simulated one

Every operator runs twice to be warm, then twice after a fill that is larger than the L2 cache, and
three times in a row, of which the last two count. OUT has, by operator, the kernels of these four
runs, `cold` and `warm`, in the order of their launches, with their times in ns as CUPTI tells them.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from more_operator_cases import MORE_PARTS
from operator_cases import PARTS
from torch.profiler import ProfilerActivity, profile

ALL_PARTS = PARTS | MORE_PARTS
COLD, WARM = 2, 3
FLUSHED_BYTES = 512 << 20
DELIMITER = "spin_kernel"
"""What `torch.cuda._sleep` launches."""

Operator = Callable[[], object]
Kernel = tuple[str, int]
Runs = dict[str, list[list[Kernel]]]


def observe(operators: Iterator[tuple[str, Operator]]) -> dict[str, Runs | str]:
    """By operator, its runs, or what it raised."""
    found: dict[str, Runs | str] = {}
    flushed = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
    for name, operator in operators:
        try:
            found[name] = kernels_of(operator, flushed)
        except (RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError) as error:
            found[name] = repr(error)[:300]
        gc.collect()
    return found


def kernels_of(operator: Operator, flushed: torch.Tensor) -> Runs:
    """Cold and warm. Raises what the operator raises."""
    for _ in range(2):
        operator()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(COLD):
            flushed.zero_()
            bounded(operator)
        for _ in range(WARM):
            bounded(operator)
        torch.cuda.synchronize()
    events = [
        event
        for event in profiler.profiler.kineto_results.events()
        if event.device_type() == torch.autograd.DeviceType.CUDA and event.duration_ns() > 0
    ]
    events.sort(key=lambda event: event.start_ns())
    runs: list[list[Kernel]] = []
    inside = False
    for event in events:
        if DELIMITER in event.name():
            inside = not inside
            if inside:
                runs.append([])
        elif inside:
            runs[-1].append((event.name(), event.duration_ns()))
    return {"cold": runs[:COLD], "warm": runs[COLD + 1 :]}


def bounded(operator: Operator) -> None:
    """Once, between delimiters. The first is long enough for the launches to be queued."""
    torch.cuda._sleep(100_000)
    operator()
    torch.cuda._sleep(1000)


def main() -> None:
    """Observe the parts that are named, or all."""
    out, chosen = Path(sys.argv[1]), sys.argv[2:] or list(ALL_PARTS)
    torch.manual_seed(0)
    found = {}
    for part in chosen:
        found[part] = observe(ALL_PARTS[part]())
        torch.cuda.empty_cache()
        out.write_text(json.dumps({"gpu": torch.cuda.get_device_name(), "parts": found}))
        print(part, len(found[part]), flush=True)


if __name__ == "__main__":
    main()
