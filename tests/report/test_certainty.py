"""The interval on the iteration time, against sums by hand."""

from __future__ import annotations

import dataclasses
import io
import math
from pathlib import Path
from typing import Any

import pytest
from made_runs import COMMUNICATION, COPY, HOST_WAIT, KERNEL, make_run, span_rows
from rich.console import Console

from phantora_py.data import RunData
from phantora_py.report.certainty import HIDDEN_HOST, IterationInterval
from phantora_py.report.host_load import LAUNCHES_SOURCE, PLAIN_LAUNCH_NS
from phantora_py.report.summary import summarise
from phantora_py.report.terminal import print_summary
from sim_server.cluster import load_cluster
from sim_server.records import MarkerKind

TABLE = {
    "copy by the copy engines": [0.5, 2.0, "copies"],
    "communication": [0.9, 1.5, "network"],
    "host": [0.5, 3.0, "host"],
}
# Of an iteration of 1,000: what the first class, the second, a copy and communication take.
PARTS = (400, 200, 100, 100)


def make(
    path: Path, classes: tuple[str, str] = ("gemm", "norm"), waits_ns: int = 800, **changes: Any
) -> RunData:
    """Three iterations of 1,000 ns; towards the end of each the device waits 199 for its host,
    which has waited for it before.
    """
    rows = []
    for begin in (0, 1000, 2000):
        at = begin
        rows.append((HOST_WAIT, begin, begin, begin + waits_ns))
        for kind, lasts in zip((KERNEL, KERNEL, COPY, COMMUNICATION), PARTS, strict=True):
            rows.append((kind, begin, at, at + lasts))
            at += lasts
        rows.append((KERNEL, begin + 999, begin + 999, begin + 1000))
    spans = span_rows([rows])
    kernels = spans["kind"] == KERNEL
    lasted = spans["end_ns"] - spans["start_ns"]
    spans["id"][kernels] = (lasted[kernels] == 200).astype(int)
    timings = [
        {"name": "a", "class": classes[0], "interval": [0.9, 1.1], "interval_source": "fit"},
        {"name": "b", "class": classes[1], "interval": [0.8, 1.4], "interval_source": "guess"},
    ]
    operation = {
        **{"kind": "all_reduce", "comm": 1, "bytes": 8, "members": [0], "site": "train.py:1"},
        **{"arrivals_ns": [0], "moves_ns": 0, "ends_ns": [0]},
    }
    gpu = {"properties": {"totalGlobalMem": 80 << 30}, "intervals": TABLE}
    members: dict[str, Any] = {
        "timings": [{"tier": "modelled", "duration_ns": 1} | timing for timing in timings],
        "operations": [operation],
        "settings": {"gpu": gpu, "nccl_environment": {}},
        **changes,
        "run": {"host_time": "measured", **changes.get("run", {})},
    }
    markers = [(0, at, MarkerKind.ITERATION, "") for at in (999, 1999, 2999)]
    spans["id"][spans["kind"] == COMMUNICATION] = 0
    return make_run(path, [()], markers, spans=spans, **members)


def interval_of(data: RunData) -> IterationInterval:
    """Of the summary of a run that has one."""
    interval = summarise(data)["trust"]["interval"]
    assert interval is not None
    return interval


def test_classes_add_as_squares(tmp_path: Path) -> None:
    """Each class by itself as its intervals say, all together as independent errors."""
    interval = interval_of(make(tmp_path / "a.phr"))
    found = {one["class"]: (one["shorter"], one["longer"]) for one in interval["classes"]}
    assert found == {
        "gemm": pytest.approx((0.0401, 0.0401)),
        "norm": pytest.approx((0.04, 0.08)),
        "copies": pytest.approx((0.05, 0.1)),
        "communication": pytest.approx((0.01, 0.05)),
        "host": pytest.approx((0.0995, 0.398)),
    }
    low = 1000 - 1000 * math.hypot(0.0401, 0.04, 0.05, 0.01, 0.0995)
    high = 1000 + 1000 * math.hypot(0.0401, 0.08, 0.1, 0.05, 0.398)
    assert (interval["low_ns"], interval["high_ns"]) == (round(low), round(high))
    assert interval["confidence"] == 0.9
    assert interval["classes"][0]["class"] == "host"
    assert sum(one["share"] for one in interval["classes"]) == pytest.approx(1)


def test_communication_between_nodes_is_less_sure(tmp_path: Path) -> None:
    """It has an interval of its own; within a node it does not count."""
    table = TABLE | {"communication between nodes": [0.5, 3.0, "far"]}
    gpu = {"properties": {"totalGlobalMem": 80 << 30}, "intervals": table}
    settings = {"gpu": gpu, "nccl_environment": {}}
    longer = []
    for nodes in (1, 2):
        data = make(tmp_path / f"{nodes}.phr", run={"nodes": nodes}, settings=settings)
        classes = interval_of(data)["classes"]
        (found,) = (one for one in classes if one["class"] == "communication")
        longer.append(found["longer"])
    assert longer == pytest.approx([0.05, 0.2])


@pytest.mark.parametrize(("transport", "longer"), [("efa", 0.1), ("roce", 0.2)])
def test_a_fabric_may_have_its_own_interval(tmp_path: Path, transport: str, longer: float) -> None:
    """One that has none is as unsure as any."""
    far = {"communication between nodes": [0.5, 3.0, "far"]}
    gpu = {
        "properties": {"totalGlobalMem": 80 << 30},
        "intervals": TABLE | far | {"communication over efa": [0.9, 2.0, "near"]},
    }
    h100 = load_cluster("h100")
    cluster = dataclasses.replace(h100, nic=dataclasses.replace(h100.nic, transport=transport))
    settings = {"gpu": gpu, "nccl_environment": {}, "cluster": cluster.to_dict()}
    data = make(tmp_path / "a.phr", run={"nodes": 2}, settings=settings)
    (found,) = (one for one in interval_of(data)["classes"] if one["class"] == "communication")
    assert found["longer"] == pytest.approx(longer)


@pytest.mark.parametrize(
    ("nodes", "shorter", "longer"), [(16, 0.05, 0.2), (64, 0.06464, 0.41962), (256, 0.075, 0.8)]
)
def test_communication_is_less_sure_the_more_nodes(
    tmp_path: Path, nodes: int, shorter: float, longer: float
) -> None:
    """On 16 nodes as measured, on 256 the square of that; class and source say so."""
    table = TABLE | {"communication between nodes": [0.5, 3.0, "far"]}
    gpu = {"properties": {"totalGlobalMem": 80 << 30}, "intervals": table}
    settings = {"gpu": gpu, "nccl_environment": {}}
    data = make(tmp_path / "a.phr", run={"nodes": nodes}, settings=settings)
    classes = interval_of(data)["classes"]
    name = "communication" if nodes == 16 else "communication beyond 16 nodes"
    (found,) = (one for one in classes if one["class"] == name)
    assert (found["shorter"], found["longer"]) == pytest.approx((shorter, longer), rel=1e-3)
    widened = f"far, measured up to 16 nodes and widened for {nodes} (assumed)"
    assert found["sources"] == ["far" if nodes == 16 else widened]


def test_host_time_that_work_hides_can_come_out(tmp_path: Path) -> None:
    """The host is busy for 600 of 1,000 ns: three times as much is 800 longer than all the work.
    Host time that nothing hides errs with it, and is told of beside it.
    """
    interval = interval_of(make(tmp_path / "a.phr", waits_ns=400))
    by_class = {one["class"]: one for one in interval["classes"]}
    hidden, host = by_class[HIDDEN_HOST], by_class["host"]
    assert (hidden["share"], hidden["shorter"]) == (0, 0)
    assert host["longer"] == pytest.approx(0.398)
    assert math.hypot(hidden["longer"], host["longer"]) == pytest.approx(0.8)
    assert hidden["sources"] == ["host"]


def test_a_host_whose_python_is_not_seen_can_come_out(tmp_path: Path) -> None:
    """Five launches an iteration, each of which may take what it does in programs without hooks."""
    data = make(tmp_path / "a.phr", run={"host_time": "fixed"})
    (hidden, *_) = interval_of(data)["classes"]
    assert hidden["class"] == HIDDEN_HOST
    longer = (5 * PLAIN_LAUNCH_NS - 1000) / 1000
    assert hidden["longer"] == pytest.approx(longer, rel=1e-4)
    assert hidden["sources"] == [LAUNCHES_SOURCE]


def test_errors_within_a_class_add(tmp_path: Path) -> None:
    """Two kernels of one class err together, wherever their intervals are from."""
    interval = interval_of(make(tmp_path / "a.phr", ("gemm", "gemm")))
    (gemm,) = (one for one in interval["classes"] if one["class"] == "gemm")
    assert (gemm["shorter"], gemm["longer"]) == pytest.approx((0.0801, 0.1201))
    assert gemm["sources"] == ["fit", "guess"]


def test_kernels_that_copy_are_no_work_of_the_copy_engines(tmp_path: Path) -> None:
    """They count with their own intervals, beside those of the engines."""
    interval = interval_of(make(tmp_path / "a.phr", ("gemm", "copy")))
    found = {one["class"]: (one["shorter"], one["longer"]) for one in interval["classes"]}
    assert found["gemm"] == pytest.approx((0.0401, 0.0401))
    assert found["copy"] == pytest.approx((0.04, 0.08))
    assert found["copies"] == pytest.approx((0.05, 0.1))


def test_whole_trainings_add_a_doubt_of_their_own(tmp_path: Path) -> None:
    """One more independent error, of all the iteration; no work, so shares still add up to one."""
    table = TABLE | {"whole training": [0.7, 1.5, "published runs"]}
    gpu = {"properties": {"totalGlobalMem": 80 << 30}, "intervals": table}
    settings = {"gpu": gpu, "nccl_environment": {}}
    without = interval_of(make(tmp_path / "a.phr"))
    interval = interval_of(make(tmp_path / "b.phr", settings=settings))
    (whole,) = (one for one in interval["classes"] if one["class"] == "whole training")
    assert (whole["shorter"], whole["longer"]) == pytest.approx((0.3, 0.5))
    assert whole["sources"] == ["published runs"]
    assert sum(one["share"] for one in interval["classes"]) == pytest.approx(1)
    assert 1000 - interval["low_ns"] == round(math.hypot(1000 - without["low_ns"], 300))
    assert interval["high_ns"] - 1000 == round(math.hypot(without["high_ns"] - 1000, 500))


def test_files_without_intervals_have_none(tmp_path: Path) -> None:
    """Of earlier versions: nothing is made up, and nothing is printed."""
    timing = {"name": "a", "class": "gemm", "tier": "modelled", "duration_ns": 1}
    data = make(tmp_path / "a.phr", timings=[timing] * 2)
    assert summarise(data)["trust"]["interval"] is None
    assert "confidence" not in shown(tmp_path / "a.phr")


def test_resimulations_of_such_files_have_none(tmp_path: Path) -> None:
    """Their kernels have intervals, their recorded GPU has not those of the rest."""
    gpu = {"properties": {"totalGlobalMem": 80 << 30}, "intervals": {"assumed": [0.5, 2.0, "x"]}}
    data = make(tmp_path / "a.phr", settings={"gpu": gpu, "nccl_environment": {}})
    assert summarise(data)["trust"]["interval"] is None


def test_the_terminal_shows_it(tmp_path: Path) -> None:
    """The range, and the classes that it comes from."""
    make(tmp_path / "a.phr")
    assert (
        "  iteration  875 ns to 1.42 us with 90% confidence; most from   "
        "host -10.0 % +39.8 %   copies -5.0 % +10.0 %   norm -4.0 % +8.0 %\n"
    ) in shown(tmp_path / "a.phr")


def shown(path: Path) -> str:
    buffer = io.StringIO()
    print_summary(path, Console(file=buffer, width=300))
    return buffer.getvalue()
