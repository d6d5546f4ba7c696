"""Runs with a timing cache, end to end. What is in it is synthetic."""

from __future__ import annotations

import math
import shlex
import sys
from pathlib import Path

import pytest
from phantora_runs import EXAMPLES, Phantora, Run

from phantora_py.cli import main
from phantora_py.data import RunData
from phantora_py.profile.needs import signatures_of
from phantora_py.report.certainty import COPIES_CLASS, HIDDEN_HOST
from phantora_py.report.kernels import kernel_rows
from phantora_py.report.summary import summarise
from phantora_py.report.window import whole_run
from sim_server.timing_cache import Entry, TimingCache

pytestmark = pytest.mark.torch
SMALL = ["--layers", "2", "--steps", "4", "--batch", "2"]


@pytest.fixture(scope="module")
def entries(ddp: Run) -> list[Entry]:
    """A measurement for every kernel of the run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES.parent / "benchmarks"))
        from synthetic_cache import synthetic_entries  # noqa: PLC0415

        return list(synthetic_entries(ddp.data, signatures_of(ddp.data)))


def write(path: Path, entries: list[Entry]) -> Path:
    with TimingCache(path, write=True) as cache:
        cache.add((entry.environment, entry.measurements[0]) for entry in entries)
    return path


@pytest.fixture(scope="module")
def measured(
    entries: list[Entry], phantora: Phantora, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    """The same run with all of them."""
    path = write(tmp_path_factory.mktemp("cache") / "cache", entries)
    command: list[str | Path] = [EXAMPLES / "train_gpt_ddp.py", *SMALL]
    run = phantora.run(["--ranks", "2", "--cache", str(path)], command)
    path.unlink()
    return run


def test_kernels_take_what_was_measured(ddp: Run, measured: Run, entries: list[Entry]) -> None:
    """Every kernel is of tier measured, and the iteration no longer than the synthetic bias."""
    assert measured.exit_code == 0, measured.errors
    kernels = [row for row in kernel_rows(measured.data, whole_run(measured.data)) if row.name]
    tiers = {row.tier for row in kernels if row.kernel_class != COPIES_CLASS}
    assert tiers == {"measured"}
    assert len([row for row in measured.data.timings if "signature" in row]) == len(entries)
    before, after = (run.summary["iterations"]["median_ns"] for run in (ddp, measured))
    assert before != after
    assert after == pytest.approx(before, rel=0.2)
    assert after * width(measured) < 0.8 * before * width(ddp)


def width(run: Run) -> float:
    """Of the interval, without what no measurement of a kernel tells of: its host."""
    classes = run.summary["trust"]["interval"]["classes"]
    doubts = [one for one in classes if one["class"] != HIDDEN_HOST]
    return sum(math.hypot(*(one[end] for one in doubts)) for end in ("shorter", "longer"))


def test_resimulation_needs_no_cache(measured: Run, tmp_path: Path) -> None:
    """The data file has what was taken from it; the history is the same without the file."""
    words = ["resimulate", str(measured.path), "-o", str(tmp_path / "again.phr"), "--quiet"]
    assert main(words) == 0
    made = summarise(RunData(tmp_path / "again.phr"))
    assert made["resimulation"] is not None
    assert made["resimulation"]["same_history"] is True
    assert made["trust"]["interval"] == measured.summary["trust"]["interval"]


def test_a_damaged_cache_is_set_aside_before_anything_runs(
    entries: list[Entry], failing_phantora: Phantora, tmp_path: Path
) -> None:
    """The run does not go on as if there were none; next time there is none."""
    path = write(tmp_path / "cache", entries)
    path.write_bytes(path.read_bytes()[:5000])
    run = failing_phantora.run(["--ranks", "1", "--cache", str(path)], ["-c", "print('ran')"])
    assert run.exit_code == 2
    assert f"the cache {path} is damaged" in run.errors
    assert "ran" not in run.output
    assert not path.exists()
    again = failing_phantora.run(["--ranks", "1", "--cache", str(path)], ["-c", "print('ran')"])
    assert "no such file; `phantora cache import` makes one" in again.errors


def test_profile_measures_what_a_run_lacks(
    ddp: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With an executor that stands in for a GPU: library calls, and its refusals are told."""
    fake = Path(__file__).parent.parent / "profile" / "fake_executor.py"
    executor = shlex.join([sys.executable, str(fake)])
    cache = tmp_path / "cache"
    assert main(["profile", str(ddp.path), "--cache", str(cache), "--executor", executor]) == 0
    said = capsys.readouterr()
    with TimingCache(cache) as opened:
        entries = opened.entries()
    assert {entry.signature["kind"] for entry in entries} == {"gemm", "library"}
    assert f"{len(entries)} measured, 0 known already" in said.out
    assert "x: a kernel by name" in said.err
