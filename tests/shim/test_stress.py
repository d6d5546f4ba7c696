"""One rank with more threads than reply slots: what `nox -s sanitizers` is to look at."""

from __future__ import annotations

import subprocess
from pathlib import Path

from fake_run import FakeRun
from native_programs import CSRC, compile_cxx

HERE = Path(__file__).parent
THREADS, ROUNDS = 24, 40


def test_threads_of_a_rank_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Values are those written, clocks never go back, events stand in order; none hangs."""
    run = FakeRun(tmp_path)
    bindings = [CSRC / "bindings" / name for name in ("channel_set.cc", "mapping.cc")]
    inputs = [HERE / "rank_stress.cc", *bindings, run.core]
    binary = compile_cxx(inputs, tmp_path / "rank_stress")
    result = subprocess.run(
        [str(binary), str(THREADS), str(ROUNDS)],
        env={**run.environment, "PHANTORA_RANK": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "ok 1\n"
