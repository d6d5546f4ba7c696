"""Where the time goes in the model: by module and phase, as text and as flame graphs."""

from __future__ import annotations

from pathlib import Path

import pages
import pytest
from made_runs import COMMUNICATION, KERNEL, Span, make_run

from phantora_py.data import RunData
from phantora_py.report.findings import Findings
from phantora_py.report.modules import ScopeTimes, scope_times
from phantora_py.report.page.flame import boxes
from phantora_py.report.page.render import make_page
from phantora_py.report.sections import modules as section
from phantora_py.report.summary import summarise
from phantora_py.report.window import whole_run
from sim_server.errors import UsageError

FORWARD, BACKWARD, OTHER = 1, 3, 0
NET, SECOND, TENTH = 1, 2, 3
PATHS = [[0, NET, "Net"], [0, SECOND, "Net.layers.2"], [0, TENTH, "Net.layers.10"]]
# Rank, module and phase, issue of the first such work.
SCOPES = [
    (0, NET << 3 | FORWARD, 10),
    (0, SECOND << 3 | FORWARD, 21),
    (0, TENTH << 3 | FORWARD, 30),
    (0, TENTH << 3 | BACKWARD, 40),
    (0, OTHER, 50),
]
SPANS: list[Span] = [
    (KERNEL, 5, 5, 6),
    (KERNEL, 20, 100, 110),
    (KERNEL, 21, 110, 130),  # the first of its module
    (KERNEL, 35, 130, 160),
    (COMMUNICATION, 38, 150, 200),  # 10 ns of it behind the kernel
    (KERNEL, 45, 200, 240),
    (KERNEL, 60, 240, 249),
]


def run_of(path: Path, scopes: list[tuple[int, int, int]] = SCOPES, **changes: object) -> RunData:
    """Of one rank."""
    operation = {
        **{"kind": "all_gather", "comm": 1, "bytes": 4, "count": 1, "dtype": 7, "members": [0]},
        **{"arrivals_ns": [150], "moves_ns": 150, "ends_ns": [200], "site": "train.py:7 main"},
    }
    return make_run(
        *(path, [SPANS]),
        scopes=scopes,
        modules=PATHS,
        operations=[operation],
        run=dict(changes),
    )


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


@pytest.mark.parametrize(("scopes", "host_time"), [([], "fixed"), (SCOPES, "off")])
def test_what_is_not_known_is_not_shown(
    tmp_path: Path, scopes: list[tuple[int, int, int]], host_time: str
) -> None:
    """Where ranks told of no module, and where all work was issued at one time."""
    data = run_of(tmp_path / "a.phr", scopes, host_time=host_time)
    assert summarise(data)["modules"] is None
    assert 'id="modules"' not in make_page(data)


MADE = section.ModuleTimes(
    named_share=0.9,
    scopes=[
        section.ModuleScope(
            path=path,
            phase=phase,
            launches=launches,
            gpu_ns=gpu_ns,
            communication_ns=20e3,
            exposed_ns=exposed_ns,
        )
        for path, phase, launches, gpu_ns, exposed_ns in (
            ("Net.layers.2", "backward", 2, 60e3, 10e3),
            ("Net.layers.10", "backward", 2, 50e3, 0),
            ("Net.layers.2", "forward", 1, 30e3, 0),
            ("", "other", 1, 20e3, 0),
            ("SGD", "optimizer", 4, 40e3, 0),
        )
    ],
)


def test_layers_are_one_row() -> None:
    """On a terminal and in the table: sums over the modules of a list, with their phases."""
    rows = {row["name"]: row for row in section.table(MADE)}
    assert [*rows] == ["Net.layers.*", "SGD", "(no module)"]
    layers = rows["Net.layers.*"]
    assert (layers["gpu_ns"], layers["launches"], layers["exposed_ns"]) == (140e3, 5, 10e3)
    head, *said = section.lines(MADE)
    assert head.split(maxsplit=1)[1] == "90.0 % of GPU time has a module or a phase"
    assert [" ".join(line.split()) for line in said] == [
        "Net.layers.* 140 us 70.0 % forward 30.0 us backward 110 us exposed communication 10.0 us",
        "SGD 40.0 us 20.0 % optimizer 40.0 us",
        "(no module) 20.0 us 10.0 % other 20.0 us",
    ]


def test_the_page_draws_them(tmp_path: Path) -> None:
    """A flame graph for each kind of time that there is, whose boxes fill it, and a table."""
    data = run_of(tmp_path / "a.phr", [(0, NET << 3 | FORWARD, 1), *SCOPES[1:]])
    shown = pages.section(pages.page_of(data, tmp_path / "a.html"), "modules")
    made = section.make(Findings(data))
    assert made is not None
    rows = section.table(made)
    assert [row[0] for row in shown.rows()] == [row["name"] for row in rows]
    (graph,) = [one for one in shown.all("div") if one.attributes.get("class") == "flame"]
    levels = [[*level.all("span")] for level in graph.all("div")]
    tops, names = levels[0], [one.text for one in levels[1]]
    assert [one.text for one in tops] == ["forward"]
    assert tops[0].attributes["style"] == "left: 0.0000%; width: 100.0000%"
    assert names == ["Net"]
    titles = [one.attributes["title"] for level in levels for one in level]
    assert any(title.startswith("Net.layers.2\nforward: ") for title in titles)


def test_boxes_lie_below_what_they_are_part_of() -> None:
    """What a node does itself is free space; too narrow boxes are left out."""
    first, second = boxes({("a", "x"): 600.0, ("a",): 200.0, ("a", "y"): 0.1, ("b",): 199.9})
    assert [(one.name, one.own) for one in (*first, *second)] == [
        *(("a", 200.0), ("b", 199.9)),
        ("x", 600.0),
    ]
    sides = [side for one in (*first, *second) for side in (one.left, one.width)]
    assert sides == pytest.approx([0, 0.8001, 0.8001, 0.1999, 0, 0.6])
    assert boxes({}) == []


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ((1, 9, 10), "is of a rank that there is not"),
        ((0, 5, 10), "is of no phase"),
        ((0, 9, -1), "begins before the run"),
    ],
)
def test_damage_is_refused(tmp_path: Path, row: tuple[int, int, int], said: str) -> None:
    """When the file is opened."""
    with pytest.raises(UsageError, match=said):
        run_of(tmp_path / "a.phr", [row])
