"""What the host of a real GPU takes: pieces of work as `phantora calibrate-host` has them, with the
real driver, and the driver's own calls.

    python host.py OUT.json

OUT has, by piece, the quarter of the rounds that is least disturbed, in ns; and the processor.
"""

from __future__ import annotations

import ctypes
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from phantora_py.calibrate.host_program import pieces

ROUNDS = 80
FIRST_ROUNDS = 5
BURST = 200


def pieces_ns(parts: dict[str, Callable[[], None]]) -> dict[str, list[float]]:
    """Quartiles by piece. The GPU is idle when a piece begins."""
    times: dict[str, list[int]] = {name: [] for name in parts}
    gc.disable()
    for _ in range(ROUNDS):
        for name, part in parts.items():
            torch.cuda.synchronize()
            start = time.perf_counter_ns()
            part()
            times[name].append(time.perf_counter_ns() - start)
    gc.enable()
    return {name: statistics.quantiles(all_[FIRST_ROUNDS:], n=4) for name, all_ in times.items()}


def calls_ns() -> dict[str, float]:
    """By call of the runtime through ctypes, less a call that does nothing; median of bursts."""
    runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.partition('.')[0]}")
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    event, other = torch.cuda.Event(), torch.cuda.Event(enable_timing=True)
    event.record()
    other.record()
    torch.cuda.synchronize()
    handle, timed = ctypes.c_void_p(event.cuda_event), ctypes.c_void_p(other.cuda_event)
    device, target = torch.ones(1 << 20, device="cuda"), torch.ones(1 << 20, device="cuda")
    pinned = torch.ones(1 << 20, pin_memory=True)
    plain = torch.ones(1 << 20)
    where = {
        name: ctypes.c_void_p(one.data_ptr())
        for name, one in {
            "device": device,
            "target": target,
            "pinned": pinned,
            "plain": plain,
        }.items()
    }
    small = ctypes.c_size_t(64)
    count = ctypes.c_int()
    calls: dict[str, Callable[[], object]] = {
        "cudaGetDevice": lambda: runtime.cudaGetDevice(ctypes.byref(count)),
        "cudaEventRecord": lambda: runtime.cudaEventRecord(handle, stream),
        "cudaEventRecord, timed": lambda: runtime.cudaEventRecord(timed, stream),
        "cudaEventQuery": lambda: runtime.cudaEventQuery(handle),
        "cudaStreamWaitEvent": lambda: runtime.cudaStreamWaitEvent(stream, handle, 0),
        "cudaStreamQuery": lambda: runtime.cudaStreamQuery(stream),
        "cudaMemcpyAsync in the GPU": lambda: runtime.cudaMemcpyAsync(
            where["target"], where["device"], small, 3, stream
        ),
        "cudaMemcpyAsync from pinned": lambda: runtime.cudaMemcpyAsync(
            where["device"], where["pinned"], small, 1, stream
        ),
        "cudaMemcpyAsync from pageable": lambda: runtime.cudaMemcpyAsync(
            where["device"], where["plain"], small, 1, stream
        ),
        "cudaMemcpyAsync to pageable": lambda: runtime.cudaMemcpyAsync(
            where["plain"], where["device"], small, 2, stream
        ),
        "cudaMemsetAsync": lambda: runtime.cudaMemsetAsync(where["device"], 0, small, stream),
        "cudaStreamSynchronize, idle": lambda: runtime.cudaStreamSynchronize(stream),
        "cudaDeviceSynchronize, idle": runtime.cudaDeviceSynchronize,
    }
    found = {name: burst_ns(act) for name, act in calls.items()}
    found["nothing"] = burst_ns(lambda: runtime.cudaGetErrorName(0))
    found.update(waits_ns())
    return found


def waits_ns() -> dict[str, float]:
    """From the end of work on the GPU to the host: `item`, and an add and a wait."""
    one = torch.ones(1, device="cuda")
    return {
        "item of an idle GPU": burst_ns(one.item, 50),
        "add and synchronize": burst_ns(lambda: (one.add_(1), torch.cuda.synchronize()), 50),
        "add and item": burst_ns(lambda: one.add(1).item(), 50),
        "add": burst_ns(lambda: one.add_(1)),
        "empty": burst_ns(lambda: torch.empty(64, device="cuda")),
        "perf_counter": burst_ns(time.perf_counter_ns),
        **copies_ns(),
    }


def copies_ns() -> dict[str, float]:
    """Whole copies with a wait, by bytes."""
    found = {}
    for size in (1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 28):
        device = torch.empty(size, dtype=torch.uint8, device="cuda")
        for kind, host in {
            "pinned": torch.ones(size, dtype=torch.uint8, pin_memory=True),
            "pageable": torch.ones(size, dtype=torch.uint8),
        }.items():
            for way, act in {
                "up": lambda d=device, h=host: (d.copy_(h), torch.cuda.synchronize()),
                "down": lambda d=device, h=host: (h.copy_(d), torch.cuda.synchronize()),
            }.items():
                found[f"copy {kind} {way} {size}"] = burst_ns(act, 3 if size > 1 << 20 else 20)
    return found


def burst_ns(act: Callable[[], object], count: int = BURST) -> float:
    """Of one call, median of 9 bursts that an idle GPU begins."""
    act()
    times = []
    for _ in range(9):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        for _ in range(count):
            act()
        times.append((time.perf_counter_ns() - start) / count)
    return statistics.median(times)


def memory_bytes() -> dict[str, int]:
    """What is gone beside what PyTorch reserves: the context, then a cuBLAS handle."""
    free, total = torch.cuda.mem_get_info()
    context = total - free - torch.cuda.memory_reserved()
    x = torch.ones(512, 512, device="cuda")
    _ = x @ x
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return {
        "total": total,
        "context": context,
        "with cublas": total - free - torch.cuda.memory_reserved(),
    }


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"


def main() -> None:
    """Everything, to a file."""
    torch.ones(1, device="cuda")
    properties: Any = torch.cuda.get_device_properties(0)
    parts = pieces(torch)
    del parts["collectives"]
    found = {
        "gpu": properties.name,
        "properties": str(properties),
        "processor": processor(),
        "memory": memory_bytes(),
        "pieces": pieces_ns(parts),
        "calls": calls_ns(),
    }
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
