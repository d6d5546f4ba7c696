"""`--lookups`: what a run takes depends on how often rows repeat; plans carried out as programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

from phantora_py.cli import main
from phantora_py.plan.tables import SHARDING_TYPES
from phantora_py.profile.needs import signatures_of

pytestmark = pytest.mark.torch


def _run(phantora: Phantora, folder: Path, lookups: dict[str, Any]) -> Run:
    table = {"name": "t", "rows": 2_000_000, "dim": 128, "pooling": 32, "lookups": lookups}
    file = folder / "tables.json"
    file.write_text(json.dumps({"tables": [table]}), encoding="utf-8")
    run = phantora.run([f"--lookups={file}"], [PROGRAMS / "lookups.py"])
    assert run.exit_code == 0, run.errors
    return run


def test_rows_that_repeat(phantora: Phantora, tmp_path: Path) -> None:
    """Lookups that repeat take less than uniform ones."""
    uniform = _run(phantora, tmp_path, {"kind": "uniform"})
    steep = _run(phantora, tmp_path, {"kind": "zipf", "exponent": 1.2})
    times = [run.summary["iterations"]["median_ns"] for run in (uniform, steep)]
    assert times[1] < times[0] - 50_000


def test_a_program_s_own_indices(phantora: Phantora) -> None:
    """The fewer rows they are, the less their lookups take; with indices that nobody knows, what
    different rows take. A signature has their number, to two digits.
    """
    run = phantora.run(["--ranks", "1"], [PROGRAMS / "repeated_rows.py"])
    assert run.exit_code == 0, run.errors
    rows = [line.split() for line in run.output.splitlines() if len(line.split()) == 3]
    times = {name: float(us) for name, _, us in rows}
    assert times["one"] < times["few"] < times["uniform"] <= times["hidden"]
    wanted = {int(distinct) for _, distinct, _ in rows if distinct != "unknown"}
    told = {
        signature["sizes"]["distinct"]
        for signature in signatures_of(run.data)
        if "distinct" in signature.get("sizes", {})
    }
    assert len(told) == len(wanted) == 3
    for one, number in zip(sorted(told), sorted(wanted), strict=True):
        assert one == pytest.approx(number, rel=1 / 64)


def test_statistics_that_are_none(phantora: Phantora, tmp_path: Path) -> None:
    """Exit code 2, before anything starts."""
    file = tmp_path / "tables.json"
    file.write_text('{"tables": [{"name": "t", "rows": -5, "dim": 8, "pooling": 1}]}')
    run = phantora.run([f"--lookups={file}"], [PROGRAMS / "lookups.py"])
    assert run.exit_code == 2
    assert "rows must be a number, at least 1, not -5" in " ".join(run.errors.split())


def test_a_plan_as_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each of the best plans runs, with every sharding type on two nodes of two ranks, and takes no
    less than the lookups and exchanges of the plan.
    """
    tables = [
        {
            "name": kind,
            "rows": 200_000,
            "dim": 64,
            "pooling": 10,
            "constraints": {"sharding_types": [kind]},
        }
        for kind in SHARDING_TYPES
    ]
    file = tmp_path / "tables.json"
    file.write_text(json.dumps(tables), encoding="utf-8")
    options = ["--ranks", "4", "--gpus-per-node", "2", "--cluster", "a100", "--batch", "4096"]
    assert main(["plan", "--tables", str(file), *options, "--confirm", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["confirmed"]) == min(2, len(found["candidates_ns"]))
    for one in found["confirmed"]:
        assert one["iterations"] >= 3
        assert one["median_ns"] > found["phases_ns"]["forward"] + found["phases_ns"]["output"]
