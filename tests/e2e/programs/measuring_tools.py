"""Programs that look at themselves with PyTorch's and Triton's tools: `measuring_tools.py KIND`.

Each prints one line of JSON.
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

SIZE, CALLS = 4096, 20
Said = dict[str, Any]


def product() -> Callable[[], torch.Tensor]:
    """A product that has been done once, so that the library is ready."""
    matrix = torch.ones(SIZE, SIZE, device="cuda", dtype=torch.bfloat16)
    _ = matrix @ matrix
    torch.cuda.synchronize()
    return lambda: matrix @ matrix


def events() -> Said:
    """Twenty products between two events."""
    multiply = product()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(CALLS):
        multiply()
    end.record()
    torch.cuda.synchronize()
    return {"product_ms": begin.elapsed_time(end) / CALLS}


def benchmark() -> Said:
    from torch.utils.benchmark import Timer  # noqa: PLC0415

    timer = Timer("multiply()", globals={"multiply": product()})
    found = timer.blocked_autorange(min_run_time=0.05)
    return {"product_ms": found.median * 1e3, "again_ms": timer.timeit(100).median * 1e3}


def do_bench() -> Said:
    import triton.testing  # noqa: PLC0415

    multiply = product()
    return {
        "product_ms": triton.testing.do_bench(multiply),
        "again_ms": triton.testing.do_bench_cudagraph(multiply),
    }


def observer() -> Said:
    """The operators of a step, with the sizes of their tensors."""
    from torch.profiler import ExecutionTraceObserver  # noqa: PLC0415

    weight = torch.ones(64, 32, device="cuda", requires_grad=True)
    inputs = torch.ones(16, 64, device="cuda")
    path = Path(tempfile.mkdtemp(), "trace.json")
    trace = ExecutionTraceObserver().register_callback(str(path))
    trace.start()
    (inputs @ weight).sum().backward()
    trace.stop()
    trace.unregister_callback()
    nodes = json.loads(path.read_text())["nodes"]
    shapes = [one["inputs"]["shapes"] for one in nodes if one["name"] == "aten::mm"]
    return {"products": shapes, "operators": len(nodes)}


def flight_recorder() -> Said:
    """Three sums, half a second apart."""
    dist.init_process_group("nccl")
    tensor = torch.ones(1000, device="cuda")
    for _ in range(3):
        dist.all_reduce(tensor)
        time.sleep(0.5)
    torch.cuda.synchronize()
    library = torch._C._distributed_c10d
    traces = [library._dump_nccl_trace()]
    if hasattr(library, "_dump_fr_trace"):
        # PyTorch 2.15's own implementation of "nccl" records there.
        traces.append(library._dump_fr_trace(backend="nccl2"))
    entries = [entry for trace in traces for entry in pickle.loads(trace).get("entries", [])]
    dist.destroy_process_group()
    created_ns = [one["time_created_ns"] for one in entries]
    return {
        "names": [one["profiling_name"] for one in entries],
        "sizes": [one["input_sizes"] for one in entries],
        "apart_s": [(after - one) / 1e9 for one, after in itertools.pairwise(created_ns)],
        "ends_s": (time.time_ns() - created_ns[-1]) / 1e9,
        "lines": [
            next(f["line"] for f in one["frames"] if f["filename"] == __file__) for one in entries
        ],
    }


def snapshot() -> Said:
    """What a history of memory holds of two tensors, of which one is given back."""
    torch.cuda.memory._record_memory_history()
    first = torch.empty(1 << 20, device="cuda")
    second = torch.empty(1 << 22, device="cuda")
    del first
    told = torch.cuda.memory._snapshot()
    path = Path(tempfile.mkdtemp(), "memory.pickle")
    torch.cuda.memory._dump_snapshot(str(path))
    with path.open("rb") as file:
        dumped = pickle.load(file)
    blocks = [block for one in told["segments"] for block in one["blocks"]]
    actions, in_file = (
        [[one["action"], one["size"]] for one in found["device_traces"][0]]
        for found in (told, dumped)
    )
    return {
        "actions": actions,
        "allocated": sorted(b["size"] for b in blocks if b["state"] == "active_allocated"),
        "same": in_file[: len(actions)] == actions,
        "kept": second.numel(),
    }


def sensors() -> Said:
    """NVML by way of PyTorch: what is simulated, and what is refused."""
    kept = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    said: Said = {"used_bytes": torch.cuda.device_memory_used(), "kept_bytes": kept.nbytes}
    said["clock_mhz"] = torch.cuda.clock_rate()
    for name in ("utilization", "memory_usage", "power_draw", "temperature"):
        try:
            said[name] = getattr(torch.cuda, name)()
        except Exception as error:
            said[name] = str(error)
    return said


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    said = globals()[sys.argv[1]]()
    if os.environ["RANK"] == "0":
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
