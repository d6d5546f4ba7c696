"""Folded runs whose host time is counted: ranks that do the same count the same work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from phantora_runs import EXAMPLES, Phantora, Run

from phantora_py.report.iterations import find_iterations

pytestmark = pytest.mark.torch
OPTIONS = ["--ranks", "8", "--gpus-per-node", "4", "--host-time", "counted"]
COMMANDS: dict[str, list[str | Path]] = {
    "ddp": [EXAMPLES / "train_gpt_ddp.py", "--layers", "2", "--steps", "3", "--batch", "2"],
    "fsdp2": [
        EXAMPLES / "train_llama.py",
        *("--layers", "2", "--width", "256", "--hidden", "704", "--heads", "4"),
        *("--vocabulary", "1024", "--sequence", "256", "--steps", "3"),
    ],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_counted_host_time_is_that_of_all_ranks(phantora: Phantora, name: str) -> None:
    """The critical path is that of rank 0, which prints and stands for the others."""
    whole = phantora.run(OPTIONS, COMMANDS[name])
    folded = phantora.run([*OPTIONS, "--fold", "1", "--witness", "1"], COMMANDS[name])
    assert (whole.exit_code, folded.exit_code) == (0, 0), folded.errors
    times_ns = [_iterations_ns(run) for run in (whole, folded)]
    assert len(times_ns[0]) == 2
    assert times_ns[1] == times_ns[0]
    (witness,) = folded.summary["trust"]["folding"]["witnesses"]
    assert witness["difference"] == ""
    assert 0.95 < witness["host_share"] <= 1


def _iterations_ns(run: Run) -> list[int]:
    return [int(time_ns) for time_ns in np.diff(find_iterations(run.data).boundaries_ns)]
