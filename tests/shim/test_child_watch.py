"""A process that is no rank sleeps in a way that tells whether it waits for its children only."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_run import FakeRun

from phantora_py.agent.idle import sleeps_by_clock

LOOPS = {
    "while child.poll() is None: time.sleep(0.2)": False,
    "while not os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG): time.sleep(0.2)": False,
    "while os.wait4(child.pid, os.WNOHANG)[0] == 0: time.sleep(0.2)": False,
    "while True: time.sleep(0.2)": True,
    "child.poll(); time.sleep(60)": True,
    "child.wait()": False,
}


@pytest.mark.parametrize("loop", LOOPS)
def test_loops_that_look_after_children(tmp_path: Path, loop: str) -> None:
    """As launchers do; one look before a long sleep is none."""
    environment = FakeRun(tmp_path).environment
    del environment["PHANTORA_RANK"]
    code = f"import os, subprocess, time\nchild = subprocess.Popen(['cat'])\n{loop}"
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE
    ) as process:
        time.sleep(1.5)
        looks = []
        for _ in range(40):
            looks.append(sleeps_by_clock(process.pid, itself=True))
            time.sleep(0.023)
        process.kill()
    assert (sum(looks) > len(looks) // 2) == LOOPS[loop], looks
