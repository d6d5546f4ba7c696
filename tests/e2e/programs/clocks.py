"""Times work on the device with every clock that a program has, and prints what they say."""

import json
import time
from collections.abc import Callable

import torch

CLOCKS: dict[str, Callable[[], float]] = {
    "perf_counter": time.perf_counter,
    "perf_counter_ns": lambda: time.perf_counter_ns() / 1e9,
    "monotonic": time.monotonic,
    "time": time.time,
    "time_ns": lambda: time.time_ns() / 1e9,
}


def read_clocks() -> dict[str, float]:
    return {name: clock() for name, clock in CLOCKS.items()}


def main() -> None:
    left = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    right = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    left @ right  # cuBLAS sets itself up
    torch.cuda.synchronize()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before = read_clocks()
    first.record()
    for _ in range(5):
        with torch.cuda.nvtx.range("product"):
            left @ right
    last.record()
    issued = read_clocks()
    torch.cuda.synchronize()
    after = read_clocks()
    time.sleep(0.25)
    slept = read_clocks()
    print(
        json.dumps(
            {
                "events": first.elapsed_time(last) / 1e3,
                **{
                    part: {name: end[name] - begin[name] for name in CLOCKS}
                    for part, begin, end in (
                        ("issuing", before, issued),
                        ("whole", before, after),
                        ("sleep", after, slept),
                    )
                },
            }
        )
    )


if __name__ == "__main__":
    main()
