"""`phantora sweep` with a real program."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from conforming import check_conforms
from phantora_runs import PROGRAMS

from phantora_py.cli import main
from phantora_py.data import RunData

PLAN = """
[fixed]
env.STEPS = 4
[grid]
size = [4096, 2048]
[[configuration]]
name = "too large"
size = 160000
[[configuration]]
name = "too many"
size = 64
run.ranks = 9
"""


def sweep(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 0) -> tuple[str, str]:
    """What a sweep of sizes prints, on its standard output and beside it."""
    command = [sys.executable, str(PROGRAMS / "products.py"), "{size}"]
    assert main(["sweep", *map(str, words), "--", *command]) == code
    captured = capsys.readouterr()
    return captured.out, " ".join(captured.err.split())


@pytest.mark.torch
def test_conditions_of_a_recorded_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that resimulates is not run under phantora, and its results are kept likewise."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEPS", "7")
    program = [sys.executable, str(PROGRAMS / "products.py"), "8192"]
    words = ["--quiet", "--ranks", "1", "-o", "a.phr"]
    assert main(["run", *words, "--", *program]) == 0
    Path("c.toml").write_text('grid = {factor = [2, 1], cluster = ["h100", "b200"]}')
    command = ["phantora", "resimulate", "a.phr", "--cluster={cluster}"]
    command += ["--scale-kernel", "*={factor}"]
    assert main(["sweep", "c.toml", "--", *command]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "[3/4] factor=1 cluster=h100 finished (in" in told
    assert "[4/4] factor=1 cluster=b200 exit code 2" in told
    assert main(["sweep", "c.toml", "--json", "--", *command]) == 0
    captured = capsys.readouterr()
    slow, recorded = json.loads(captured.out)["runs"]
    assert slow["iteration"]["median_ns"] > recorded["iteration"]["median_ns"]
    assert RunData(Path(slow["file"])).run["resimulation"]["of"] == "a.phr"


@pytest.mark.torch
def test_configurations_are_run_once_and_compared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Out of memory and failures are results; what was run with the same inputs is taken from
    there, also for a file with more in it.
    """
    plan = tmp_path / "sizes.toml"
    plan.write_text(PLAN)
    words: list[str | Path] = [plan, "-o", tmp_path / "out"]
    out, _ = sweep(
        capsys, *words, "--json", "--per-iteration", "{size} rows", "--svg", tmp_path / "s.svg"
    )
    assert "size=2048 (1 h100)" in (tmp_path / "s.svg").read_text()
    comparison: dict[str, Any] = json.loads(out)
    check_conforms(comparison, "sweep")
    large, small, failed = comparison["runs"]
    assert [run["name"] for run in comparison["runs"]] == ["size=4096", "size=2048", "too large"]
    assert small["speed_up"]["value"] == pytest.approx(
        0.5 * large["iteration"]["median_ns"] / small["iteration"]["median_ns"]
    )
    assert large["iteration"]["count"] == 3
    assert (failed["exit_code"], failed["fits"]) == (4, False)
    assert [run["pareto"] for run in comparison["runs"]] == [False, True, False]
    (unfit,) = comparison["without_data"]
    assert (unfit["name"], unfit["exit_code"]) == ("too many", 2)
    assert RunData(Path(small["file"])).ranks == 1

    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.phr")}
    out, told = sweep(capsys, *words)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.phr")} == times
    assert "[1/4] size=4096 finished (before;" in told
    assert "[3/4] too large out of memory: Rank 0 ended with exit code 1." in told
    assert "[4/4] too many exit code 2: usage: 9 ranks are not" in told
    assert "size=2048 1 h100" in " ".join(out.split())
    assert "* no other is better in time of an iteration, peak memory and GPUs together" in out


def test_nothing_finished(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Is a failure, with what each said."""
    plan = tmp_path / "sizes.toml"
    plan.write_text("grid = {size = [1], run.ranks = [9]}")
    out, told = sweep(capsys, plan, "-o", tmp_path / "out", code=4)
    assert "the only one: exit code 2: usage: 9 ranks are not 2 nodes" in " ".join(out.split())
    assert "a rank failed: No configuration finished." in told


def test_mistakes_are_found_before_anything_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """An unknown cluster, a command that is missing, inputs that are the same under two names."""
    plan = tmp_path / "sizes.toml"
    plan.write_text('grid = {size = [1], run.cluster = ["h100", "h10"]}')
    words: list[str | Path] = [plan, "-o", tmp_path / "out"]
    assert "there is no cluster 'h10'" in sweep(capsys, *words, code=2)[1]
    plan.write_text('grid = {size = [1], run.cluster = ["h100", "a100"]}')
    assert "takes a number of at least 1" in sweep(capsys, *words, "--jobs", "0", code=2)[1]
    text = "configuration = [{name = 'a', size = 1}, {name = 'b', size = 1, run.cluster = 'h100'}]"
    plan.write_text(text)
    assert "'a' and 'b' have the same inputs" in sweep(capsys, *words, code=2)[1]
    assert main(["sweep", str(plan)]) == 2
    assert "There is no command. It follows a '--'" in capsys.readouterr().err
    assert list((tmp_path / "out").glob("*.phr")) == []


def test_a_price_of_a_gpu_that_is_not_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused before anything is run, with the nearest name that is."""
    monkeypatch.chdir(tmp_path)
    Path("plan.toml").write_text('[grid]\nsize = [64]\n[grid.run]\ncluster = ["a100", "h100"]')
    _, told = sweep(capsys, "plan.toml", "--price", "a1000=2.49", code=2)
    assert "no run has a GPU of that name; did you mean 'a100'? The runs have a100, h100." in told
    assert not Path("plan.sweep").exists()
