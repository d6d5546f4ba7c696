"""torch.profiler shows the simulated GPU, as our own trace does, and costs no virtual time."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from phantora_runs import PROGRAMS, Phantora, Run

from phantora_py.report.iterations import find_iterations
from sim_server.log.history import COMMUNICATION_SPAN, COPY_SPAN, FILL_SPAN, KERNEL_SPAN

pytestmark = pytest.mark.torch

HANDLERS = """
import faulthandler, os, signal, sys
import torch
from torch.profiler import ProfilerActivity, profile

faulthandler.enable()
heard = []
for handle in (lambda *_: heard.append("first"), lambda *_: heard.append("second")):
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        torch.ones(4).add(1)
        before = signal.signal(signal.SIGILL, handle)
        torch.ones(4).add(1)
        os.kill(os.getpid(), signal.SIGILL)
        torch.ones(4).add(1)
    print([event.count for event in profiler.key_averages() if event.key == "aten::add"], heard)
signal.signal(signal.SIGILL, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGILL)
print("not reached")
"""
RANKS = 2
CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset"}
WORK = (KERNEL_SPAN, COPY_SPAN, FILL_SPAN, COMMUNICATION_SPAN)
# Of the legacy default stream in a trace, as on hardware.
FIRST_STREAM = 7
# Of profiled.py: active steps in a window, and windows.
STEPS = 2
WINDOWS = 2


@dataclass(frozen=True)
class Profiled:
    """A run of profiled.py, and the folder into which it wrote."""

    run: Run
    folder: Path

    def trace(self, rank: int) -> dict[str, Any]:
        text = (self.folder / f"trace-{rank}.json").read_text(encoding="utf-8")
        found: dict[str, Any] = json.loads(text, parse_float=Decimal)
        return found

    def iterations_ns(self) -> list[int]:
        """Of those after the first, in which much is set up."""
        return [int(one) for one in np.diff(find_iterations(self.run.data).boundaries_ns)][1:]


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Profiled]:
    """The same program without a profiler, with one, and with one of the host alone."""
    runs = {}
    for which in ("off", "on", "cpu"):
        folder = tmp_path_factory.mktemp(which)
        phantora = Phantora(folder)
        run = phantora.run(["--ranks", str(RANKS)], [PROGRAMS / "profiled.py", which, folder])
        assert run.exit_code == 0, run.errors
        runs[which] = Profiled(run, folder)
        phantora.close()
    return runs


def events(trace: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event.get("ph") == "X"]


def times_ns(trace: dict[str, Any], event: dict[str, Any]) -> tuple[int, int]:
    """Begin and end since 1970. The trace has microseconds with three digits."""
    begin_ns = trace["baseTimeNanoseconds"] + int(Decimal(event["ts"]) * 1000)
    return begin_ns, begin_ns + int(Decimal(event["dur"]) * 1000)


@pytest.mark.parametrize("rank", range(RANKS))
def test_gpu_events_are_our_spans(profiled: dict[str, Profiled], rank: int) -> None:
    """Every span within the active steps is an event and no other is, to the nanosecond."""
    trace, data = profiled["on"].trace(rank), profiled["on"].run.data
    spans = data.spans_of(rank)
    spans = spans[np.isin(spans["kind"], WORK)]
    found = [(*times_ns(trace, event), event) for event in events(trace)]
    found = [one for one in found if one[2]["cat"] in CATEGORIES]
    # The clock's reading at virtual time 0 is the same for all; which it is the trace does not say.
    (first_ns, *_) = min(found, key=lambda one: one[0])
    starts_ns = sorted(int(span["start_ns"]) for span in spans)
    epochs_ns = [
        first_ns - start_ns
        for start_ns in starts_ns
        if {begin_ns - first_ns + start_ns for begin_ns, *_ in found} <= set(starts_ns)
    ]
    assert len(epochs_ns) >= 1
    (epoch_ns, *_) = epochs_ns
    rows = Counter(
        (begin_ns - epoch_ns, end_ns - epoch_ns, int(event["args"]["stream"]) - FIRST_STREAM)
        for begin_ns, end_ns, event in found
    )
    window = (min(rows)[0], max(rows)[0])
    ours = Counter(
        (int(span["start_ns"]), int(span["end_ns"]), int(span["stream"]))
        for span in spans
        if window[0] <= span["start_ns"] <= window[1]
    )
    assert rows == ours
    assert sum(ours.values()) > 50


def test_what_the_events_are(profiled: dict[str, Profiled]) -> None:
    """Kernels under their names, copies and fills with their bytes, NCCL's kernels under NCCL's."""
    trace = profiled["on"].trace(0)
    by_name = Counter(event["name"] for event in events(trace) if event["cat"] in CATEGORIES)
    assert by_name["Memcpy HtoD (Pinned -> Device)"] == STEPS
    assert by_name["Memcpy DtoH (Device -> Pinned)"] == STEPS
    nccl = [name for name in by_name if name.startswith("ncclDevKernel_AllReduce_Sum_f32_RING_LL(")]
    assert [by_name[name] for name in nccl] == [STEPS]
    assert any("GeluCUDAKernel" in name or "gelu" in name.lower() for name in by_name)
    moved = [one for one in events(trace) if one["cat"] in ("gpu_memcpy", "gpu_memset")]
    assert 32 * 256 * 4 in {one["args"]["bytes"] for one in moved}


def test_calls_lead_to_their_work(profiled: dict[str, Profiled]) -> None:
    """Each GPU event has the correlation of a call, which begins before it, and of an operator."""
    trace = profiled["on"].trace(1)
    calls = {
        event["args"]["correlation"]: event
        for event in events(trace)
        if event["cat"] == "cuda_runtime"
    }
    operators = {one["args"].get("External id") for one in events(trace) if one["cat"] == "cpu_op"}
    work = [event for event in events(trace) if event["cat"] in CATEGORIES]
    for event in work:
        call = calls[event["args"]["correlation"]]
        assert call["ts"] <= event["ts"]
        assert event["args"]["External id"] in operators
    assert {"cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync"} <= {
        call["name"] for call in calls.values()
    }


def test_operators_hold_their_calls(profiled: dict[str, Profiled]) -> None:
    """The operator's clock, the processor's counter, is that of the calls: one is in the other."""
    trace = profiled["on"].trace(0)
    spans = [(*times_ns(trace, event), event) for event in events(trace)]
    operators = {
        event["args"]["External id"]: (begin_ns, end_ns)
        for begin_ns, end_ns, event in spans
        if event["cat"] == "cpu_op"
    }
    launches = [one for one in spans if one[2]["name"] == "cudaLaunchKernel"]
    assert launches
    for begin_ns, end_ns, event in launches:
        outer = operators[event["args"]["External id"]]
        assert outer[0] <= begin_ns < end_ns <= outer[1]


def test_averages_have_device_times(profiled: dict[str, Profiled]) -> None:
    """key_averages sums up what the trace shows, to the microseconds' last digit."""
    trace = profiled["on"].trace(0)
    text = (profiled["on"].folder / "averages-0.json").read_text(encoding="utf-8")
    averages: dict[str, float] = json.loads(text)
    sums: Counter[str] = Counter()
    for event in events(trace):
        if event["cat"] in CATEGORIES:
            sums[event["name"]] += event["dur"]
    for name, sum_us in sums.items():
        assert averages[name] == pytest.approx(float(sum_us), abs=0.01)


def test_it_costs_no_virtual_time(profiled: dict[str, Profiled]) -> None:
    """Iterations take what they take without a profiler, to the nanosecond; but for the wait for
    the GPU with which a profiler of the GPU ends a window.
    """
    off, on, cpu = (profiled[which].iterations_ns() for which in ("off", "on", "cpu"))
    assert cpu == off
    differences = [one - other for one, other in zip(on, off, strict=True)]
    assert sum(one != 0 for one in differences) <= WINDOWS
    assert max(map(abs, differences)) < 10_000


def test_the_programs_own_handlers(failing_phantora: Phantora, tmp_path: Path) -> None:
    """The signal by which we hear of the counter still reaches the program, and ends it if it says
    so.
    """
    program = tmp_path / "handlers.py"
    program.write_text(HANDLERS)
    run = failing_phantora.run(["--ranks", "1"], [program])
    assert run.exit_code == 4
    assert "[3] ['first']" in run.output
    assert "[3] ['first', 'second']" in run.output
    assert "not reached" not in run.output
    assert "SIGILL" in run.errors
