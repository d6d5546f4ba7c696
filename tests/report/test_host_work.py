"""When a report says that the host decides, or could."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_runs import KERNEL, make_run

from phantora_py.report.findings import Findings
from phantora_py.report.sections import host_work, path
from sim_server.records import MarkerKind

US = 1000
STEP_NS = 1000 * US


def found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: tuple[int, float, str]
) -> host_work.HostWork:
    """Of two ranks with equal iterations of 1 ms. `case`: launches, the host's part of the critical
    path, the model of host time.
    """
    launches, host, host_time = case
    starts = [
        step * STEP_NS + (10 + number) * US for step in range(4) for number in range(launches)
    ]
    spans = [(KERNEL, start, start, start + 500) for start in starts]
    markers = [
        (rank, (step + 1) * STEP_NS, MarkerKind.OPTIMIZER_STEP, "SGD#1")
        for rank in range(2)
        for step in range(4)
    ]
    data = make_run(tmp_path / "a.phr", [spans] * 2, markers, run={"host_time": host_time})
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
