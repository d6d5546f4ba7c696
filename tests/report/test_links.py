"""The use of links over time, from stretches that a test makes up."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_runs import KERNEL, make_run
from pages import page_of, section
from test_page import OPERATION, two_iterations

from phantora_py.data import RunData
from phantora_py.report.links import link_use
from phantora_py.report.window import Window
from sim_server.network.link_use import USE_TYPE

LOADS = [
    {"NIC": [0.25, 1.0, "nic 0.0 to leaf 0"], "NVLink": [0.1, 0.2, "gpu 0.0 to nvswitch 0"]},
    {"NIC": [0.5, 0.5, "nic 1.0 to leaf 0"]},
]


def with_links(path: Path, rows: list[tuple[int, int, int]], **changes: Any) -> RunData:
    """A run of 2500 us whose last iteration begins at 1000 us; the rows come in two pieces."""
    two_iterations(path, **changes)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("link_loads/000000.json", json.dumps(LOADS))
        for number, part in enumerate((rows[:1], rows[1:])):
            buffer = io.BytesIO()
            np.save(buffer, np.array(part, USE_TYPE))
            archive.writestr(f"link_use/{number:06}.npy", buffer.getvalue())
    return RunData(path)


def test_slots(tmp_path: Path) -> None:
    """Stretches that overlap add up in the mean, and the fuller counts for the busiest; a slot that
    is used in part has its part.
    """
    data = with_links(tmp_path / "a.phr", [(0, 100, 0), (50, 250, 1), (300, 350, 0)])
    nvlink, nic = link_use(data, Window(0, 400, 1), 4)
    assert (nvlink.name, nic.name) == ("NVLink", "NIC")
    assert nic.mean.tolist() == pytest.approx([0.25 + 0.25, 0.5, 0.25, 0.125])
    assert nic.busiest.tolist() == pytest.approx([1.0, 0.5, 0.25, 0.5])
    assert nvlink.mean.tolist() == pytest.approx([0.1, 0, 0, 0.05])
    # 150 ns full, 200 ns half full.
    assert (nvlink.most, nic.most) == ("gpu 0.0 to nvswitch 0", "nic 0.0 to leaf 0")


def test_a_window_cuts(tmp_path: Path) -> None:
    """What is not in it does not count; nor does a class that is not used in it."""
    data = with_links(tmp_path / "a.phr", [(0, 100, 0), (50, 250, 1), (300, 350, 0)])
    (nic,) = link_use(data, Window(150, 250, 1), 2)
    assert nic.mean.tolist() == [0.5, 0.5]
    assert link_use(data, Window(260, 290, 1), 2) == []


def test_page(tmp_path: Path) -> None:
    """Two strips for each class, with shades; the limit of operations stands in their row."""
    limited = [OPERATION | {"limited_by": limit} for limit in ("NIC", "NVLink", "NIC")]
    rows = [(0, 10, 1), (1_000_000, 1_375_000, 0)]
    page = page_of(with_links(tmp_path / "a.phr", rows, operations=limited), tmp_path / "a.html")
    links = section(page, "links")
    assert "NVLink gpu 0.0 to nvswitch 0 all" in links.text
    nvlink_all, nvlink_most, nic_all, nic_most = links.all("svg")
    assert nic_most.attributes["aria-label"] == "NIC, the busiest: 25.0 % on average"
    for strip, opacity in ((nvlink_all, "0.1"), (nvlink_most, "0.2"), (nic_all, "0.25")):
        (shade,) = strip.all("rect")
        assert [shade.attributes[name] for name in ("x", "width")] == ["0", "100"]
        assert shade.attributes["fill-opacity"] == opacity
    *_, operations = section(page, "communication").all("table")
    assert [row[9] for row in operations.rows()] == ["NIC 66.7 %, NVLink 33.3 %"]


def test_earlier_versions(tmp_path: Path) -> None:
    """A file without says so."""
    page = page_of(make_run(tmp_path / "a.phr", [[(KERNEL, 0, 0, 9)]]), tmp_path / "a.html")
    assert "The use of links is not in this file" in section(page, "links").text
