"""Where the time goes in the model: by module and phase, as text and as flame graphs."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import COMMUNICATION, KERNEL, Span, make_run

from phantora_py.data import RunData
from phantora_py.report.modules import ScopeTimes, scope_times
from phantora_py.report.page.flame import boxes
from phantora_py.report.page.render import make_page
from phantora_py.report.summary import summarise
from phantora_py.report.window import whole_run

MARKS = [
    [0, 10, "forward", "Net"],
    [0, 20, "forward", "Net.layers.2"],
    [0, 30, "forward", "Net.layers.10"],
    [0, 40, "backward", "Net.layers.10"],
    [0, 50, "other", ""],
]
SPANS: list[Span] = [
    (KERNEL, 5, 5, 6),
    (KERNEL, 20, 100, 110),  # issued when the mark was made, before it
    (KERNEL, 21, 110, 130),
    (KERNEL, 35, 130, 160),
    (COMMUNICATION, 38, 150, 200),  # 10 ns of it behind the kernel
    (KERNEL, 45, 200, 240),
    (KERNEL, 60, 240, 249),
]


def run_of(path: Path, marks: list[list[object]] = MARKS, **changes: object) -> RunData:
    """Of one rank."""
    operation = {
        **{"kind": "all_gather", "comm": 1, "bytes": 4, "count": 1, "dtype": 7, "members": [0]},
        **{"arrivals_ns": [150], "moves_ns": 150, "ends_ns": [200], "site": "train.py:7 main"},
    }
    return make_run(path, [SPANS], modules=marks, operations=[operation], run=dict(changes))


def test_work_belongs_to_the_module_for_which_it_was_issued(tmp_path: Path) -> None:
    """However late it ran; exposed is what no kernel hides."""
    data = run_of(tmp_path / "a.phr")
    assert scope_times(data, whole_run(data)) == {
        ("forward", "Net"): ScopeTimes(1, 10, 0, 0),
        ("forward", "Net.layers.2"): ScopeTimes(1, 20, 0, 0),
        ("forward", "Net.layers.10"): ScopeTimes(1, 30, 50, 40),
        ("backward", "Net.layers.10"): ScopeTimes(1, 40, 0, 0),
        ("other", ""): ScopeTimes(2, 10, 0, 0),
    }


@pytest.mark.parametrize(("marks", "host_time"), [([], "fixed"), (MARKS, "off")])
def test_what_is_not_known_is_not_shown(
    tmp_path: Path, marks: list[list[object]], host_time: str
) -> None:
    """Without marks, and where all of them have the same time as the work."""
    data = run_of(tmp_path / "a.phr", marks, host_time=host_time)
    assert summarise(data)["modules"] is None
    assert 'id="modules"' not in make_page(data)


def test_boxes_lie_below_what_they_are_part_of() -> None:
    """What a node does itself is free space; too narrow boxes are left out."""
    first, second = boxes({("a", "x"): 600.0, ("a",): 200.0, ("a", "y"): 0.1, ("b",): 199.9})
    assert [(one.name, one.own_ns) for one in (*first, *second)] == [
        *(("a", 200.0), ("b", 199.9)),
        ("x", 600.0),
    ]
    sides = [side for one in (*first, *second) for side in (one.left, one.width)]
    assert sides == pytest.approx([0, 0.8001, 0.8001, 0.1999, 0, 0.6])
    assert boxes({}) == []
