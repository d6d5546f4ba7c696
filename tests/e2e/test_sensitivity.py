"""`phantora report --sensitivity`: what is bound by one thing gains from that alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conforming import check_conforms
from pages import parse, section
from phantora_runs import PROGRAMS, Phantora, Run

from phantora_py.cli import main

pytestmark = pytest.mark.torch


def levers(capsys: pytest.CaptureFixture[str], path: Path) -> dict[str, float]:
    """By name, by which share of the iteration each makes it shorter."""
    assert main(["report", str(path), "--sensitivity", "--json"]) == 0
    summary: dict[str, Any] = json.loads(capsys.readouterr().out)
    check_conforms(summary, "summary")
    return {one["name"]: one["shorter"] for one in summary["sensitivity"]["levers"]}


@pytest.mark.parametrize("bound_by", ["gemm", "memory", "host"])
def test_what_binds_is_what_helps(
    phantora: Phantora, capsys: pytest.CaptureFixture[str], bound_by: str
) -> None:
    """10 % more speed of all that there is makes the iteration shorter by 1 - 1 / 1.1."""
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "bound_by.py", bound_by])
    assert run.exit_code == 0, run.errors
    found = levers(capsys, run.path)
    assert max(found, key=lambda name: found[name]) == bound_by
    whole = 1 - 1 / 1.1
    assert found.pop(bound_by) == pytest.approx(whole, rel=0.3 if bound_by == "host" else 0.05)
    assert all(-0.001 < one < 0.2 * whole for one in found.values()), found


def test_between_nodes_the_links_of_nodes(
    phantora: Phantora, ddp: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ranks of one node gain from NVLink, those on nodes of their own from NICs."""
    inside = levers(capsys, ddp.path)
    assert inside["nic"] == 0 < inside["nvlink"]
    command = [str(word) for word in ddp.data.run["command"][1:]]
    apart = phantora.run(["--ranks", "2", "--gpus-per-node", "1"], command)
    between = levers(capsys, apart.path)
    assert between["nvlink"] == 0 < between["nic"]


def test_on_the_terminal_and_on_the_page(
    ddp: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line for each part, and a sentence; without being asked for, nothing."""
    assert main(["report", str(ddp.path), "--sensitivity"]) == 0
    said = capsys.readouterr().out
    assert "What 10% more speed is worth\n" in said
    assert "  Most is gained from " in said
    page = tmp_path / "a.html"
    assert main(["report", str(ddp.path), "--sensitivity", "--html", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "Most is gained from" in section(parse(text), "sensitivity").text
    assert main(["report", str(ddp.path), "--html", str(page)]) == 0
    assert 'id="sensitivity"' not in page.read_text(encoding="utf-8")
