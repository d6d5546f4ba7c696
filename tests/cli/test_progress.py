"""The progress line on a terminal."""

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from phantora_py.agent.states import Doing, RankState
from phantora_py.cli.rank_table import rank_table

SCRIPT = """
from types import SimpleNamespace
from phantora_py.agent.states import Doing, RankState
from phantora_py.cli import progress
from sim_server import simulation_pb2 as wire

progress.FIRST_SHOWN_S = 0.0
prepared = SimpleNamespace(
    layout=SimpleNamespace(ranks=8, nodes=1),
    command=SimpleNamespace(launch=None),
    fold=None,
    live_ranks=range(8),
    cluster=SimpleNamespace(name="h100"),
    isolation=SimpleNamespace(tier="T3"),
    notes=["something"],
    streams=("log",),
    options=SimpleNamespace(live=True, until_steady=False, iterations=20, host_time="fixed"),
)
with progress.Progress(prepared, shown=True) as shown:
    shown._live.refresh()
    shown.started()
    shown.ranks_up(3)
    shown._live.refresh()
    for rank, text in ((0, b"a line\\n"), (0, b"40%"), (0, b"\\r50%"), (1, b"another\\n")):
        shown.said(rank, 2, text)
        shown.rest()
        shown._live.refresh()
    shown.ranks_up(8)
    shown.update(wire.Progress(iterations=0, virtual_time_ns=900_000_000))
    shown._live.refresh()
    shown.update(wire.Progress(iterations=9, virtual_time_ns=900_000_000))
    shown.update(wire.Progress(iterations=1, virtual_time_ns=1_000_000_000))
    shown.update(wire.Progress(iterations=3, virtual_time_ns=1_500_000_000))
    shown._live.refresh()
    steady = wire.Steady(iterations=6, time_ns=2_500_000_000, median_ns=400_000_000)
    for _ in range(2):
        shown.update(wire.Progress(iterations=7, virtual_time_ns=3_000_000_000, steady=steady))
    steady = wire.Steady(iterations=7, time_ns=2_900_000_000, median_ns=500_000_000)
    shown.update(wire.Progress(iterations=7, virtual_time_ns=3_000_000_000, steady=steady))
    shown.ranks([RankState(Doing.RUNNING, 5), RankState(Doing.WAITING, 2_000_000)])
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
        # The line above has made room.
        "\x1b[2Kphantora 0.1.0   8 ranks on 1 node (h100)   host time: fixed   isolation: T3",
        "note: something",
        "3 of 8 ranks up   wall 0m00s",
        "a line",
        "40%",
        "50%",
        "[rank1]: another",
        "  virtual 0.9 s   wall 0m0",
        "iteration 3 of 20   virtual 1.5 s",
        # Of what does not fit into a line nothing is cut off.
        "wall 0m00s (",
        "s an iteration, 0m00s left)",
        "note: the iteration time has settled after iteration 6, at virtual 2.50 s: 400 ms (",
        "note: something else ends iterations now; the iteration time has settled after "
        "iteration 7, at virtual 2.90 s: 500 ms",
        "running",
        "waits for its GPU or for other ranks",
        "[rank0]: 50%",
    )
    position = 0
    for stage in stages:
        position = shown.find(stage, position)
        assert position >= 0, (stage, shown)
    assert shown.count("has settled") == 2
    assert "iteration 0" not in shown


def test_table_of_many_ranks() -> None:
    """Those that do the same share a row, with the range of their clocks."""
    states = [RankState(Doing.RUNNING, 1_000_000 * (1 + rank)) for rank in range(64)]
    states[3] = RankState(Doing.ENDED, 9_000_000)
    console = Console(width=100, file=io.StringIO())
    console.print(rank_table(states))
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "0-2, 4-63" in printed
    assert "1.00 ms to 64.0 ms" in printed
    assert len(printed.splitlines()) == 3
