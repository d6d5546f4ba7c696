"""Time of data loaders, where the user has said what a batch takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from phantora_runs import PROGRAMS, Phantora

from phantora_py.report.sections.caveats import marks

pytestmark = pytest.mark.torch

BATCHES = 16
TWO_CORES = 'base = "h100"\nhost.cores = 2\n'


def seconds(printed: str) -> list[float]:
    return [float(line.split()[1]) for line in printed.splitlines()]


@pytest.mark.parametrize(
    ("workers", "cores", "batch_s"), [(0, 112, 0.02), (1, 112, 0.02), (4, 112, 0.005), (4, 2, 0.01)]
)
def test_steps_wait_for_their_data(
    phantora: Phantora, tmp_path: Path, workers: int, cores: int, batch_s: float
) -> None:
    """The headline and the program's own clock have what loading takes; both epochs alike."""
    cluster = tmp_path / "two-cores.toml"
    cluster.write_text(TWO_CORES)
    options = ["--gpus", "1", "--data-time", "20ms"]
    if cores == 2:
        options += ["--cluster", str(cluster)]
    run = phantora.run(options, [PROGRAMS / "loads_batches.py", str(workers), str(BATCHES)])
    assert run.exit_code == 0, run.errors
    assert run.summary["iterations"]["median_ns"] == pytest.approx(batch_s * 1e9, rel=0.05)
    # Before the first batch of several workers a whole batch's time passes.
    first, second = seconds(run.output)
    expected_s = BATCHES * batch_s + (0.02 * max(1, workers // cores) - batch_s if workers else 0)
    assert second == pytest.approx(expected_s, rel=0.05)
    assert first == pytest.approx(second, rel=0.05)
    assert not run.summary["trust"]["caveats"]


def test_a_time_without_a_loader(phantora: Phantora) -> None:
    """Which the report says: the user believes that steps wait for their data."""
    options = ["--ranks", "1", "--data-time", "20ms"]
    run = phantora.run(options, [PROGRAMS / "throughput.py"])
    assert run.exit_code == 0, run.errors
    assert [one["what"] for one in run.summary["trust"]["caveats"]] == ["no_loader"]
    (said,) = marks(run.summary["trust"]["caveats"])
    assert said.startswith("rank 0: 1 option of the run had no effect: --data-time")


def test_without_a_time_workers_take_none(phantora: Phantora) -> None:
    """Which the report says."""
    run = phantora.run(["--gpus", "1"], [PROGRAMS / "loads_batches.py", "1", str(BATCHES)])
    assert run.exit_code == 0, run.errors
    assert seconds(run.output)[1] < 0.1
    assert [one["what"] for one in run.summary["trust"]["caveats"]] == ["workers"]
