"""Traces of a run with modules: threads of phases and modules, and what links carried."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_runs import COMMUNICATION, KERNEL, Span, make_run
from test_links import with_links
from test_modules import BACKWARD, FORWARD, NET, OTHER, SCOPES, TENTH, run_of
from test_perfetto import Read, as_json, assert_equal, read

from phantora_py.report.links import capacities_bytes_per_s
from sim_server.cluster import load_cluster
from sim_server.gpu import load_gpu
from sim_server.settings import Settings


def on(found: Read, thread: str) -> list[tuple[Any, ...]]:
    """Name, begin and end of what is on a thread of rank 0."""
    return [(name, begin, begin + lasted) for place, _, name, begin, lasted in found.slices
            if place == (0, thread)]  # fmt: skip


def test_phases_and_modules(tmp_path: Path) -> None:
    """From the first work of a module to its last, within the modules that it is part of; what was
    issued for none has no slice.
    """
    data = run_of(tmp_path / "a.phr")
    found = read(data)
    assert sorted(on(found, "phases")) == [("backward", 200, 240), ("forward", 100, 160)]
    assert sorted(on(found, "modules")) == [
        *(("Net", 100, 160), ("Net", 200, 240), ("layers", 110, 160), ("layers", 200, 240)),
        *(("layers.10", 130, 160), ("layers.10", 200, 240), ("layers.2", 110, 130)),
    ]
    told = [text for place, *_, text in found.arguments if place == (0, "modules")]
    assert "[('module', 'Net.layers.10'), ('phase', 'backward')]" in told
    threads = [name for rank, name in found.threads if rank == 0]
    assert threads[3:6] == ["phases", "modules", "stream 0"]


def test_the_stream_that_computes_most(tmp_path: Path) -> None:
    """What runs beside it has no slices, nor has communication; each GPU has threads of its
    own. JSON has the same.
    """
    spans: list[Span] = [
        *((KERNEL, 20, 100, 110), (KERNEL, 35, 105, 108), (KERNEL, 45, 120, 130)),
        *((COMMUNICATION, 46, 120, 190), (KERNEL, 60, 200, 210)),
    ]
    rows = make_run(tmp_path / "a.phr", [spans]).spans
    rows["stream"][rows["start_ns"] == 105] = 7
    rows["device"][rows["start_ns"] == 200] = 1
    scopes = [(0, NET << 3 | FORWARD, 10), (0, TENTH << 3 | BACKWARD, 40)]
    paths = [[0, NET, "Net"], [0, TENTH, "Net.x"]]
    data = make_run(tmp_path / "a.phr", [spans], spans=rows, scopes=scopes, modules=paths)
    found = read(data)
    assert sorted(on(found, "phases, GPU 0")) == [("backward", 120, 130), ("forward", 100, 110)]
    assert on(found, "phases, GPU 1") == [("backward", 200, 210)]
    assert sorted(on(found, "modules, GPU 1")) == [("Net", 200, 210), ("x", 200, 210)]
    assert_equal(found, *as_json(data), run=1)


@pytest.mark.parametrize(
    ("scopes", "host_time"), [([], "fixed"), (SCOPES, "off"), ([(0, OTHER, 1)], "fixed")]
)
def test_without_modules(
    tmp_path: Path, scopes: list[tuple[int, int, int]], host_time: str
) -> None:
    """Nothing is made up where it is not known what work was issued for."""
    found = read(run_of(tmp_path / "a.phr", scopes, host_time=host_time))
    assert on(found, "phases") == on(found, "modules") == []


def test_bytes_per_second(tmp_path: Path) -> None:
    """Of all links of a class: a node has 8 NICs of 50 GB/s, each in two directions."""
    settings = Settings(2, 1, 2, load_cluster("h100"), load_gpu("h100"))
    told = json.loads(settings.to_json())
    data = with_links(tmp_path / "a.phr", [(0, 100, 0), (1_000_000, 1_100_000, 1)], settings=told)
    assert capacities_bytes_per_s(data)["NIC"] == 2 * 8 * 50e9
    name = "NIC, bytes per second"
    counts = [(time_ns, value) for _, one, time_ns, value in read(data).counts if one == name]
    assert counts == [(0, 0), (0, 200e9), (100, 0), (1_000_000, 400e9), (1_100_000, 0)]
    unknown = with_links(tmp_path / "b.phr", [(0, 100, 0)])
    assert capacities_bytes_per_s(unknown) == {}
    assert {one for _, one, *_ in read(unknown).counts} >= {"NIC, all", "NVLink, the busiest"}
