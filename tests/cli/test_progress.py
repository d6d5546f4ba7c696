"""The progress line on a terminal."""

import os
import pty
import subprocess
import sys
from pathlib import Path

SCRIPT = """
from types import SimpleNamespace
from phantora_py.cli import progress
from sim_server import simulation_pb2 as wire

progress._FIRST_SHOWN_S = 0.0
with progress.Progress(SimpleNamespace(), shown=True) as shown:
    shown.update(wire.Progress(iterations=3, virtual_time_ns=1_500_000_000))
    shown._live.refresh()
"""


def test_progress_names_iteration_and_both_clocks(tmp_path: Path) -> None:
    """On a terminal the line shows iterations, virtual time and wall time, each labelled."""
    leader, follower = pty.openpty()
    child = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, stdout=follower, stderr=follower, check=False
    )
    os.close(follower)
    shown = os.read(leader, 1 << 16).decode()
    assert child.returncode == 0, shown
    assert "iteration 3   virtual 1.5 s   wall 0m00s" in shown
