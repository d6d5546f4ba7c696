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
progress.print_headline = lambda _: None
prepared = SimpleNamespace(layout=SimpleNamespace(ranks=8), streams=("log",))
with progress.Progress(prepared, shown=True) as shown:
    shown._live.refresh()
    shown.started()
    shown.ranks_up(3)
    shown._live.refresh()
    for rank, text in ((0, b"a line\\n"), (0, b"40%"), (0, b"\\r50%"), (1, b"another\\n")):
        shown.said(rank, 2, text)
        shown.rest()
        shown._live.refresh()
    shown.update(wire.Progress(iterations=1, virtual_time_ns=1_000_000_000))
    shown.update(wire.Progress(iterations=3, virtual_time_ns=1_500_000_000))
    shown._live.refresh()
"""


def test_progress_names_iteration_and_both_clocks(tmp_path: Path) -> None:
    """On a terminal the line shows how far the run is, beneath what the ranks print."""
    leader, follower = pty.openpty()
    child = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, stdout=follower, stderr=follower, check=False
    )
    os.close(follower)
    shown = os.read(leader, 1 << 16).decode()
    assert child.returncode == 0, shown
    stages = (
        "starting   wall 0m00s",
        "3 of 8 ranks up   wall 0m00s",
        "a line",
        "40%",
        "50%",
        "[rank1]: another",
        "iteration 3   virtual 1.5 s   wall 0m00s (",
        "[rank0]: 50%",
    )
    position = 0
    for stage in stages:
        position = shown.find(stage, position)
        assert position >= 0, (stage, shown)
