"""What the table of host-bound steps is made of, without a simulation."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path += [str(Path(__file__).parents[2] / "benchmarks")]

from host_bound import MODELS, Runs, predict, table
from host_bound_rows import Reach, Row

ROW = Row("family", "row", 0.1, "h100", 1, ("train.py",))
LONG = Row("family", "long", 1.1, "h100", 1, ("train.py",), reach=Reach("--layers", (2, 6), 32))


def kept(path: Path, words: str, times_s: tuple[float, float, float], hooks_s: float = 0.0) -> None:
    """Remembered: the same of both models."""
    with path.open("a", encoding="utf-8") as file:
        for model in MODELS:
            names = ("time_s", "low_s", "high_s")
            held = dict(zip(names, times_s, strict=True)) | {"host": 0.5, "hooks_s": hooks_s}
            file.write(json.dumps({"key": f"{model} h100 1 train.py{words}", **held}) + "\n")


def test_a_long_row_is_continued_from_two_short_ones(tmp_path: Path) -> None:
    """Of 2 and 6 layers to 32: eight times as far, the ends of the interval too."""
    path = tmp_path / "kept"
    kept(path, " --layers 2", (0.1, 0.08, 0.2))
    runs = Runs(path, no_new=True)
    assert predict(LONG, "counted", runs) is None
    kept(path, " --layers 6", (0.2, 0.16, 0.4))
    found = predict(LONG, "counted", Runs(path, no_new=True))
    assert found is not None
    assert (found.time_s, found.low_s, found.high_s) == pytest.approx((0.85, 0.68, 1.7))


def test_the_table_has_what_was_run(tmp_path: Path) -> None:
    """Ratios are of the published time; a row that was not run is left out."""
    path = tmp_path / "kept"
    kept(path, "", (0.12, 0.09, 0.15))
    lines = list(table([ROW, LONG], Runs(path, no_new=True)))
    assert lines[2] == ("| family | row | 100 | 120 | 1.20 | yes | 50% | 120 | 1.20 | yes |")
    assert lines[3] == ""
    assert "`counted`: 20% off in the median, 20% at worst; the interval holds 1 of 1." in lines


def test_a_truth_outside_of_the_interval_is_not_held(tmp_path: Path) -> None:
    """It is below the lower end."""
    path = tmp_path / "kept"
    kept(path, "", (0.12, 0.11, 0.15))
    assert "| no |" in list(table([ROW], Runs(path, no_new=True)))[2]


def test_hooks_reach_further_than_short_runs_tell(tmp_path: Path) -> None:
    """Launches of 32 layers take longer with hooks than the ends of intervals without."""
    path = tmp_path / "kept"
    kept(path, " --layers 2", (0.1, 0.08, 0.2), 0.12)
    kept(path, " --layers 6", (0.2, 0.16, 0.4), 0.44)
    found = predict(LONG, "fixed", Runs(path, no_new=True))
    assert found is not None
    assert found.hooks_s == pytest.approx(2.52)
    assert found.holds(2.5)
    assert not found.holds(2.6)


def test_rows_of_devices_are_compared_with_each_other(tmp_path: Path) -> None:
    """They say nothing of how right host time is, but whether it matters where it should not."""
    path = tmp_path / "kept"
    kept(path, "", (0.12, 0.11, 0.15))
    row = replace(ROW, is_device_bound=True)
    lines = list(table([row], Runs(path, no_new=True)))
    assert "| family | row | 100 | 120 | 1.20 |" in lines[2]
    assert not any("in the median" in line for line in lines)
    assert "differs from `fixed` by +0.0% at most" in lines[-2]
