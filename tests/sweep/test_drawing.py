"""The drawing of a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from phantora_py.sweep.drawing import write_drawing
from sim_server.errors import UsageError


def run(
    name: str, median_ns: int, size_bytes: int, pareto: bool, exit_code: int = 0
) -> dict[str, Any]:
    """As a comparison has it."""
    return {
        **{"name": name, "ranks": 8, "gpu": "h100", "exit_code": exit_code, "throughput": None},
        **{"iteration": {"median_ns": median_ns}, "peak_memory_bytes": size_bytes},
        "pareto": pareto,
    }


def test_points_lie_where_their_figures_are(tmp_path: Path) -> None:
    """Half the time is half way from the axis; failures are not drawn; any name may be."""
    path = tmp_path / "a.svg"
    gib = 1 << 30
    runs = [run("a<b", 2_000_000, 8 * gib, True), run("b", 4_000_000, 4 * gib, False)]
    write_drawing(path, [*runs, run("c", 1, 1, False, exit_code=4)])
    root = ElementTree.fromstring(path.read_text())
    space = "{http://www.w3.org/2000/svg}"
    circles = [one.attrib for one in root.iter(f"{space}circle") if one.attrib["r"] == "9"]
    assert [one["class"] for one in circles] == ["front", "other"]
    left, bottom = 70, 380
    (near, far), (high, low) = (
        [abs(float(one[axis]) - origin) for one in circles]
        for axis, origin in (("cx", left), ("cy", bottom))
    )
    assert [far / near, high / low] == pytest.approx([2, 2], rel=0.01)
    texts = [one.text for one in root.iter(f"{space}text")]
    assert {"a<b (8 h100)", "b (8 h100)", "2.00 ms", "8.00 GiB"} <= set(texts)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """Is named."""
    with pytest.raises(UsageError, match="cannot be written: it is a directory"):
        write_drawing(tmp_path, [run("a", 1000, 1 << 30, True)])
