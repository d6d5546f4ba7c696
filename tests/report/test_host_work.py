"""When a report says that the host decides, or could."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_runs import KERNEL, make_run

from phantora_py.data import RunData
from phantora_py.data.stacks import DEEPEST, check_stacks
from phantora_py.report.findings import Findings
from phantora_py.report.host_load import HostLoad
from phantora_py.report.page.render import make_page
from phantora_py.report.sections import host_work, path
from sim_server.cpu import load_cpu
from sim_server.files.schema import Fault
from sim_server.log.host_gaps import SOURCES, as_tree, by_stack
from sim_server.records import MarkerKind

US = 1000
STEP_NS = 1000 * US


GAPS: dict[str, Any] = {
    "measured": [],
    "replayed": {one: {"calls": 0, "charged_ns": 0} for one in SOURCES},
}
STACKS = {
    ("/a/train.py:1 <module>",): 10,
    ("/a/train.py:1 <module>", "/a/train.py:5 step"): 0,
    ("/a/train.py:1 <module>", "/a/train.py:5 step", "/b/adam.py:9 step"): 60,
}


def made(tmp_path: Path, launches: int, host_time: str, **more: Any) -> RunData:
    """A run of two ranks with equal iterations of 1 ms."""
    starts = [
        step * STEP_NS + (10 + number) * US for step in range(4) for number in range(launches)
    ]
    spans = [(KERNEL, start, start, start + 500) for start in starts]
    markers = [
        (rank, (step + 1) * STEP_NS, MarkerKind.OPTIMIZER_STEP, "SGD#1")
        for rank in range(2)
        for step in range(4)
    ]
    run = {"host_time": host_time, **more.pop("run", {})}
    return make_run(tmp_path / "a.phr", [spans] * 2, markers, run=run, **more)


def found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: tuple[int, float, str]
) -> host_work.HostWork:
    """`case`: launches, the host's part of the critical path, the model of host time."""
    launches, host, host_time = case
    data = made(tmp_path, launches, host_time)
    summary: dict[str, Any] = {"length_ns": 1000, "by_cause_ns": {"host": int(1000 * host)}}
    monkeypatch.setattr(path, "make", lambda _found: summary)
    work = host_work.make(Findings(data))
    assert work is not None
    assert work["launches"] == launches
    return work


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ((8, 0.1, "fixed"), ""),
        ((11, 0.1, "fixed"), "the host could decide"),
        ((11, 0.1, "off"), "the host could decide"),
        ((11, 0.1, "measured"), ""),
        ((11, 0.6, "fixed"), "bound by the host"),
        ((9, 0.6, "measured"), "bound by the host"),
    ],
)
def test_what_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: tuple[int, float, str], said: str
) -> None:
    """More launches than one in 120 us are a doubt where the model does not see Python's work."""
    lines = host_work.lines(found(tmp_path, monkeypatch, case))
    assert [said in line for line in lines] == [True] * bool(said)


@pytest.mark.parametrize(("widest", "is_said"), [(1.5, False), (3.0, True)])
def test_a_counted_host_may_err(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, widest: float, is_said: bool
) -> None:
    """It is said where it would decide at the end of its interval."""
    cpu = load_cpu("genoa").to_dict() | {"interval": [1 / widest, widest]}
    monkeypatch.setattr(HostLoad, "most_ns", lambda _load, high: 0.5 * STEP_NS * high)
    summary: dict[str, Any] = {"length_ns": 1000, "by_cause_ns": {"host": 100}}
    monkeypatch.setattr(path, "make", lambda _found: summary)
    work = host_work.make(Findings(made(tmp_path, 8, "counted", run={"cpu": cpu}, host_gaps=GAPS)))
    assert work is not None
    assert work["could_bound"] == is_said
    assert (
        any("may take longer than the model" in line for line in host_work.lines(work)) == is_said
    )


def test_a_flame_graph_shows_what_was_charged(tmp_path: Path) -> None:
    """Each function below its caller, and what ran on threads without any."""
    counted = {
        **{"works": {"frame": {"times": 9, "charged_ns": 100}}, "calls": {}},
        **{"functions": [["/b/adam.py:9 step", 60], ["/a/train.py:1 <module>", 10]]},
        **{"elsewhere_ns": 30, "stacks": as_tree(STACKS)},
    }
    cpu = load_cpu("genoa").to_dict()
    data = made(tmp_path, 8, "counted", run={"cpu": cpu}, host_gaps=GAPS | {"counted": counted})
    work = host_work.make(Findings(data))
    assert work is not None
    functions = [*STACKS][-1]
    assert work["stacks"][0] == {"functions": [*functions], "share": 0.6}
    assert [one["share"] for one in work["stacks"]] == [0.6, 0.1]
    page = make_page(data)
    graph = page[page.index('<section id="host">') :]
    assert 'width: 70.0000%" title="train.py:1 &lt;module&gt;' in graph
    assert 'class="host-other" style="left: 70.0000%; width: 30.0000%"' in graph


def test_it_is_said_where_no_function_is_known(tmp_path: Path) -> None:
    """Ranks that are stopped, as with --until-steady, have told none."""
    cpu = load_cpu("genoa").to_dict()
    work = host_work.make(Findings(made(tmp_path, 8, "counted", run={"cpu": cpu}, host_gaps=GAPS)))
    assert any("host time by function   not known" in line for line in host_work.lines(work))


def test_other_models_have_no_flame_graph(tmp_path: Path) -> None:
    """They know of no function."""
    assert '<section id="host">' not in make_page(made(tmp_path, 8, "fixed"))


def test_stacks_are_a_tree_and_back() -> None:
    """Callers come first, and a file whose rows do not say so is refused."""
    tree = as_tree(STACKS)
    assert by_stack(tree) == STACKS
    check_stacks([list(one) for one in tree])
    with pytest.raises(Fault, match="does not come before it"):
        check_stacks([[1, "f", 0]])
    with pytest.raises(Fault, match="called within 200 others"):
        check_stacks([[place, "f", 0] for place in range(DEEPEST + 1)])
