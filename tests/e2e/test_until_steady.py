"""`--until-steady` on real programs: the ranks stop, and what is kept is the run up to there."""

from __future__ import annotations

from pathlib import Path

import pytest
from phantora_runs import EXAMPLES, Phantora

from phantora_py.cli import main
from phantora_py.data import RunData
from phantora_py.report.iterations import find_iterations
from sim_server.log.steady import ALIKE_ITERATIONS

pytestmark = pytest.mark.torch

SMALL: list[str | Path] = [
    EXAMPLES / "train_gpt_ddp.py",
    "--layers",
    "1",
    "--batch",
    "1",
    "--sequence",
    "256",
]
NEEDED = ALIKE_ITERATIONS + 1


def test_until_steady(phantora: Phantora) -> None:
    """A script of many steps ends with exit code 0 after a few; its iterations are those of a run
    that goes on for longer, and a second run is equal.
    """
    options = ["--ranks", "2", "--until-steady"]
    first = phantora.run(options, [*SMALL, "--steps", "5000"])
    second = phantora.run(options, [*SMALL, "--steps", "4000"])
    assert first.exit_code == second.exit_code == 0, first.errors
    assert first.errors == ""
    steady = first.summary["steady"]
    assert NEEDED <= steady["iterations"] < 100
    # DDP makes its buckets anew in the second one, which is more work.
    iterations = first.summary["iterations"]
    assert iterations["count"] + len(iterations["apart"]) == steady["iterations"] - 1
    assert find_iterations(first.data).boundaries_ns[-1] == steady["time_ns"]
    assert first.summary["digest"] == second.summary["digest"]
    assert first.summary["memory"] == second.summary["memory"]
    whole = phantora.run(["--ranks", "2"], [*SMALL, "--steps", str(steady["iterations"] + 2)])
    durations_ns = iterations["per_iteration_ns"]
    assert whole.summary["iterations"]["per_iteration_ns"][: len(durations_ns)] == durations_ns
    assert whole.summary["steady"] is None


def test_a_resimulation_ends_there_too(phantora: Phantora, tmp_path: Path) -> None:
    """However far the ranks had got, on the same cluster and on another one; also once more."""
    run = phantora.run(["--ranks", "2", "--until-steady"], [*SMALL, "--steps", "5000"])
    assert run.exit_code == 0, run.errors
    path = run.path
    for name, options in (("same", []), ("h200", ["--cluster", "h200"]), ("twice", [])):
        output = tmp_path / f"{name}.phr"
        assert main(["resimulate", str(path), "-o", str(output), "--quiet", *options]) == 0
        path, again = output, RunData(output)
        assert again.run["steady"]["iterations"] == run.summary["steady"]["iterations"]
        assert find_iterations(again).boundaries_ns[-1] == again.run["steady"]["time_ns"]
        assert again.run["resimulation"]["same_history"] == (None if options else True)
    assert RunData(tmp_path / "same.phr").run["digest"] == run.summary["digest"]


def test_a_short_run_ends_by_itself(phantora: Phantora) -> None:
    """It has not settled: all of it is there."""
    run = phantora.run(["--ranks", "1", "--until-steady"], [*SMALL, "--steps", "3"])
    assert run.exit_code == 0, run.errors
    assert run.summary["steady"] is None
    assert run.summary["iterations"]["count"] == 2
    assert run.summary["trust"]["calls"]["modelled"] > 0
