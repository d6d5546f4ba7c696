"""What is read from traces of PyTorch's profiler."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path += [str(Path(__file__).parents[2] / "benchmarks")]

from host_traces import RECORDER, collective_ns, plain_ns, read, table

from sim_server.cpu import load_cpu


def event(name: str, category: str, start: float, lasted: float) -> dict[str, Any]:
    return {
        **{"ph": "X", "name": name, "cat": category, "ts": start, "dur": lasted},
        **{"pid": 1, "tid": 1},
    }


EVENTS = [
    event("aten::mul", "cpu_op", 0, 14),
    event("cudaLaunchKernel", "cuda_runtime", 5, 4),
    # Not plain: it calls another.
    event("aten::linear", "cpu_op", 20, 50),
    event("aten::addmm", "cpu_op", 21, 48),
    event("cudaLaunchKernel", "cuda_runtime", 30, 4),
    event("cudaMemcpyAsync", "cuda_runtime", 40, 9),
    event("c10d::allreduce_", "cpu_op", 100, 90),
    event("record_param_comms", "cpu_op", 110, 70),
    event("cudaEventRecord", "cuda_runtime", 120, 2),
    event("cudaLaunchKernelExC", "cuda_runtime", 130, 8),
    {"ph": "M", "name": "process_name", "pid": 1},
]


def test_calls_of_the_runtime_are_taken_off(tmp_path: Path) -> None:
    """A plain operator, and a collective with all that it calls."""
    path = tmp_path / "a.json.gz"
    trace = {"traceEvents": EVENTS, "deviceProperties": [{"name": "NVIDIA A100"}]}
    path.write_bytes(gzip.compress(json.dumps(trace).encode()))
    found = read(path)
    assert found is not None
    # The product copies beside its launch, which is no other operator.
    assert (found.plain, found.collective, found.collectives) == (22.5, 80, 1)
    assert found.gpu == "A100"
    cpu = load_cpu("genoa")
    assert f"| {80 / 22.5:.1f} | 4.0 |" in list(table([found], cpu))[2]


def test_a_trace_without_collectives_says_nothing(tmp_path: Path) -> None:
    """It is left out."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"traceEvents": EVENTS[:2]}))
    assert read(path) is None


def test_a_profile_has_events_and_the_dispatch_apart() -> None:
    """All together take as long as so many plain operators, with the flight recorder."""
    cpu = load_cpu("genoa")
    whole_ns = collective_ns(cpu, 8) + cpu.works["dispatch"] + 2 * cpu.calls["event"]
    assert whole_ns == pytest.approx(8 * RECORDER * plain_ns(cpu))
