"""Tables of a data file: what is in them, in both libraries, and what is said without one."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_runs import FILL, HOST_WAIT, KERNEL, make_run
from test_page import OPERATION
from test_page import two_iterations as make_two_iterations

import phantora_py
from phantora_py.api import Run
from phantora_py.tables import TABLES
from sim_server.cluster import load_cluster
from sim_server.errors import UsageError
from sim_server.gpu import load_gpu
from sim_server.network.link_use import USE_TYPE
from sim_server.records import MarkerKind, MemoryKind
from sim_server.settings import Settings

SETTINGS = json.loads(Settings(2, 1, 2, load_cluster("h100"), load_gpu("h100")).to_json())


def open_run(path: Path, *arguments: Any, **named: Any) -> Run:
    """Of `make_run`, as a user opens it."""
    make_run(path, *arguments, **named)
    return phantora_py.open(path)


def open_two_iterations(path: Path, **named: Any) -> Run:
    """Of `two_iterations`, as a user opens it."""
    make_two_iterations(path, **named)
    return phantora_py.open(path)


def test_kernels(tmp_path: Path) -> None:
    """A row for each piece of a device's work, with the iteration in which it ended."""
    open_two_iterations(tmp_path / "a.phr")
    kernels = phantora_py.open(tmp_path / "a.phr").table("kernels")
    assert kernels[kernels["rank"] == 1].drop(columns="rank").values.tolist() == [
        [0, 0, "k", "gemm", "modelled", 0, 0, 1_000_000, 0],
        [0, 0, "k", "gemm", "modelled", 900_000, 1_000_000, 1_900_000, 1],
        [0, 0, "copy, host to device", "copies", "modelled", 2_100_000, 2_250_000, 2_500_000, 1],
    ]
    busy_ns = (kernels["end_ns"] - kernels["start_ns"]).groupby(kernels["rank"]).sum()
    assert busy_ns.tolist() == [2_150_000, 2_150_000]


def test_kernels_of_one_name(tmp_path: Path) -> None:
    """Two signatures may have one name, and fills have none."""
    timings = [
        {"name": "k", "class": "gemm", "tier": tier, "duration_ns": 1}
        for tier in ("modelled", "measured")
    ]
    by_rank = [[(KERNEL, 0, 0, 1), (KERNEL, 1, 1, 2), (FILL, 2, 2, 3)]]
    spans = open_run(tmp_path / "a.phr", by_rank).spans
    spans["id"] = (0, 1, 0)
    kernels = open_run(tmp_path / "a.phr", by_rank, spans=spans, timings=timings).table("kernels")
    assert kernels["name"].tolist() == ["k", "k", "fill of device memory"]
    assert kernels["tier"].tolist() == ["modelled", "measured", "modelled"]
    assert kernels["iteration"].tolist() == [-1, -1, -1]


def test_collectives(tmp_path: Path) -> None:
    """Operations with bus bandwidth, and the parts that ranks have of them."""
    data = open_two_iterations(tmp_path / "a.phr")
    (row,) = data.table("collectives").to_dict("records")
    assert (row["kind"], row["members"], row["algorithm"]) == ("all_reduce", [0, 1], "Ring")
    assert (row["arrives_ns"], row["moves_ns"], row["iteration"]) == (1_900_000, 2_000_000, 1)
    assert row["bus_bytes_per_s"] == pytest.approx((1 << 20) / 250e-6)
    parts = data.table("collective_parts")
    assert parts[["operation", "rank", "arrives_ns"]].values.tolist() == [
        [0, 0, 2_000_000],
        [0, 1, 1_900_000],
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {("gpu 0.0", "gpu 0.1"), ("gpu 0.1", "gpu 0.0")}),
        ({"kind": "broadcast", "root": 1}, {("gpu 0.1", "gpu 0.0")}),
        ({"kind": "send", "members": [1, 0], "algorithm": "Direct"}, {("gpu 0.1", "gpu 0.0")}),
    ],
)
def test_flows(tmp_path: Path, changes: dict[str, object], expected: set[tuple[str, str]]) -> None:
    """Those of the operation, over the recorded cluster's links, while its bytes move."""
    operations = [OPERATION | {"algorithm": ""}, OPERATION | changes]
    data = open_two_iterations(tmp_path / "a.phr", operations=operations, settings=SETTINGS)
    flows = data.table("flows")
    assert set(zip(flows["source"], flows["target"], strict=True)) == expected
    assert set(flows["operation"]) == {1}
    assert all(
        f"{flow.source} > nvswitch 0 > {flow.target}" == flow.links for flow in flows.itertuples()
    )
    assert flows["link_bytes"].between(1 << 20, 4 << 20).all()
    assert flows["begin_ns"].between(2_000_001, 2_249_999).all()
    assert set(flows["end_ns"]) == {2_250_000}


@pytest.mark.parametrize("changes", [{"algorithm": "Tree"}, {"ends_ns": [2_000_100] * 2}])
def test_flows_of_another_version(tmp_path: Path, changes: dict[str, object]) -> None:
    """An operation that would be done otherwise now, or not be in time, has others than it had."""
    operations = [OPERATION | changes]
    data = open_two_iterations(tmp_path / "a.phr", operations=operations, settings=SETTINGS)
    with pytest.raises(UsageError, match=r"another version of phantora, .* operation 0"):
        data.table("flows")


def test_iterations(tmp_path: Path) -> None:
    """The parts of an iteration add up on every rank."""
    iterations = open_two_iterations(tmp_path / "a.phr").table("iterations")
    assert iterations[["rank", "iteration"]].values.tolist() == [[0, 1], [1, 1]]
    parts = iterations[
        ["compute_ns", "exposed_communication_ns", "waiting_for_ranks_ns", "host_ns", "idle_ns"]
    ]
    lasted_ns = iterations["end_ns"] - iterations["begin_ns"]
    assert parts.sum(axis=1).tolist() == lasted_ns.tolist() == [1_500_000, 1_500_000]
    assert iterations["exposed_communication_ns"].tolist() == [250_000, 250_000]
    assert iterations["waiting_for_ranks_ns"].tolist() == [0, 100_000]


def test_the_other_tables(tmp_path: Path) -> None:
    """Peaks of memory, waits of the host, markers."""
    markers = [(0, 4, MarkerKind.RANGE_PUSH, "forward")]
    taken = [[1, 3, 0, MemoryKind.CONTEXT, 512, 512, 0, "a.py:1 f"]]
    data = open_run(tmp_path / "a.phr", [[(HOST_WAIT, 1, 1, 5)], []], markers, allocations=taken)
    assert data.table("allocations").values.tolist() == [[1, 3, 0, "context", 512, 512, "a.py:1 f"]]
    assert data.table("memory")["device_peak_bytes"].tolist() == [4 << 30, 4 << 30]
    assert data.table("host_waits").values.tolist() == [[0, "stream", 1, 5]]
    assert data.table("markers").values.tolist() == [[0, 4, "range push", "forward"]]


def test_link_use(tmp_path: Path) -> None:
    """A row for each class of links that was in use."""
    open_run(tmp_path / "a.phr", [[]])
    loads = [{"NIC": [0.5, 1.0, "NIC 3"], "PCIe": [0.25, 0.5, "PCIe 1"]}, {"NIC": [0.1, 0.2, "x"]}]
    buffer = io.BytesIO()
    np.save(buffer, np.array([(0, 10, 1), (10, 30, 0)], USE_TYPE))
    with zipfile.ZipFile(tmp_path / "a.phr", "a") as archive:
        archive.writestr("link_loads/000000.json", json.dumps(loads))
        archive.writestr("link_use/000000.npy", buffer.getvalue())
    assert phantora_py.open(tmp_path / "a.phr").table("link_use").values.tolist() == [
        [0, 10, "NIC", 0.1, 0.2, "x"],
        [10, 30, "NIC", 0.5, 1.0, "NIC 3"],
        [10, 30, "PCIe", 0.25, 0.5, "PCIe 1"],
    ]


@pytest.mark.parametrize("name", TABLES)
def test_arrow_has_the_same(tmp_path: Path, name: str) -> None:
    """Both libraries have the same columns and rows."""
    data = open_two_iterations(tmp_path / "a.phr", settings=SETTINGS)
    frame, table = data.table(name), data.table(name, "arrow")
    assert list(frame.columns) == table.column_names
    assert frame.to_dict("records") == table.to_pylist()


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_an_empty_run(tmp_path: Path, name: str) -> None:
    """No rows, but all columns, in both libraries; peaks of memory there are always."""
    data = open_run(tmp_path / "a.phr", [[]])
    full = open_two_iterations(tmp_path / "b.phr", settings=SETTINGS).table(name)
    for library in ("pandas", "arrow"):
        table = data.table(name, library)
        assert len(table) == (1 if name == "memory" else 0)
    assert list(data.table(name).columns) == list(full.columns)


@pytest.mark.parametrize(("library", "module"), [("pandas", "pandas"), ("arrow", "pyarrow")])
def test_without_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, module: str
) -> None:
    """What is missing and how to get it; the rest of the reader does without."""
    data = open_run(tmp_path / "a.phr", [[]])
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=rf"{module}, .* pip install 'phantora\[tables\]'"):
        data.table("kernels", library)
    assert data.ranks == 1


def test_what_there_is_not(tmp_path: Path) -> None:
    """A wrong name is answered with the right ones."""
    data = open_run(tmp_path / "a.phr", [[]])
    with pytest.raises(UsageError, match="no table 'bytes'; there are kernels, collectives"):
        data.table("bytes")
    with pytest.raises(UsageError, match="of pandas or arrow, not of 'polars'"):
        data.table("kernels", "polars")
