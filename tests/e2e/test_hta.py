"""Holistic Trace Analysis reads our traces, and finds in them what the report says.

nox -s hta
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from phantora_runs import Run

from phantora_py.cli import main
from phantora_py.report.breakdown import union
from phantora_py.report.iterations import find_iterations
from phantora_py.report.window import Window, steady_window
from sim_server.log.history import COMMUNICATION_SPAN, KERNEL_SPAN

pytestmark = [
    pytest.mark.torch,
    pytest.mark.hta,
    pytest.mark.skipif(
        importlib.util.find_spec("hta") is None,
        reason="Holistic Trace Analysis is not installed: nox -s hta",
    ),
    pytest.mark.filterwarnings("default"),  # those of its own are not ours to mend
]
# Shares are printed with two digits after the point.
ROUNDING = 0.006


@pytest.fixture(scope="module")
def analysis(fsdp: Run, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The iterations after the first of a real run, as HTA loads them."""
    with pytest.MonkeyPatch.context() as patch:
        # Else it rounds times to microseconds.
        patch.setenv("HTA_DISABLE_NS_ROUNDING", "1")
        from hta.trace_analysis import TraceAnalysis  # noqa: PLC0415

        folder = tmp_path_factory.mktemp("hta") / "traces"
        count = fsdp.summary["iterations"]["count"]
        options = ["--trace", str(folder), "--trace-iterations", str(count)]
        assert main(["report", str(fsdp.path), *options]) == 0
        return TraceAnalysis(trace_dir=str(folder), include_last_profiler_step=True)


def covered_ns(run: Run, rank: int, window: Window, kinds: set[int]) -> int:
    """How much of the window work of these kinds covers."""
    spans = run.data.spans_of(rank)
    spans = spans[np.isin(spans["kind"], list(kinds))]
    cover = union(spans["start_ns"], spans["end_ns"])
    return int(cover.between(np.array([window.begin_ns, window.end_ns]))[0])


def test_temporal_breakdown(fsdp: Run, analysis: Any) -> None:
    """Busy time and time of the kernels, of every rank, to a microsecond per iteration."""
    found = analysis.get_temporal_breakdown(visualize=False)
    assert found["rank"].tolist() == [0, 1]
    breakdown, count = fsdp.summary["breakdown_ns"], fsdp.summary["iterations"]["count"]
    busy_us = (found["kernel_time(us)"] - found["idle_time(us)"]).mean() / count
    expected_us = (breakdown["compute"] + breakdown["exposed_communication"]) / 1e3
    assert busy_us == pytest.approx(expected_us, abs=1)
    window = steady_window(fsdp.data, find_iterations(fsdp.data))
    for rank, compute_us in zip(found["rank"], found["compute_time(us)"], strict=True):
        expected_ns = covered_ns(fsdp, rank, window, {KERNEL_SPAN})
        assert compute_us == pytest.approx(expected_ns / 1e3, abs=count)


def test_overlap(fsdp: Run, analysis: Any) -> None:
    """Which share of communication kernels cover: copies, which our report counts with them, HTA
    leaves out.
    """
    found = analysis.get_comm_comp_overlap(visualize=False)
    window = steady_window(fsdp.data, find_iterations(fsdp.data))
    for rank, share in zip(found["rank"], found["comp_comm_overlap_pctg"], strict=True):
        communication, kernels = {COMMUNICATION_SPAN}, {KERNEL_SPAN}
        whole_ns = covered_ns(fsdp, rank, window, communication)
        overlap_ns = whole_ns + covered_ns(fsdp, rank, window, kernels)
        overlap_ns -= covered_ns(fsdp, rank, window, communication | kernels)
        assert overlap_ns > 0
        assert share == pytest.approx(100 * overlap_ns / whole_ns, abs=ROUNDING)


def test_launches_are_tied_to_kernels(fsdp: Run, analysis: Any) -> None:
    """Every kernel belongs to a call, and so to an iteration unless it came after the last step."""
    events = analysis.t.get_trace(0)
    kernels = events[events["stream"] >= 0]
    assert len(kernels) > 0
    assert (kernels["index_correlation"] > 0).all()
    steps = set(range(1, fsdp.summary["iterations"]["count"] + 1))
    assert steps <= set(kernels["iteration"]) <= steps | {-1}
    launches = analysis.get_cuda_kernel_launch_stats(ranks=[0], visualize=False)[0]
    assert (launches["launch_delay"] >= 0).all()
