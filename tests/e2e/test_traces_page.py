"""Every command of docs/traces.md works, one after the other, as a reader would type them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_tutorial import steps

from phantora_py.data import RunData

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
LIMIT_S = 500


@pytest.mark.timeout(LIMIT_S + 60)
def test_every_command_of_the_page_works(tmp_path: Path) -> None:
    """No command fails; the run is found again in its trace, and the traces tell nothing of us."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    commands = [command for command, _ in steps((ROOT / "docs/traces.md").read_text("utf-8"))]
    assert len(commands) >= 10
    for command in commands:
        done = subprocess.run(
            ["bash", "-ec", command],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    ends = [
        int(RunData(tmp_path / one).spans["end_ns"].max()) for one in ("train.phr", "again.phr")
    ]
    assert ends[0] == ends[1]
    names = {one.name for one in (tmp_path / "operators").iterdir()}
    assert names == {"rank-0.json", "rank-1.json", "ranks.json"}
    for trace in (tmp_path / "train-trace").iterdir():
        content = trace.read_bytes()
        assert str(tmp_path).encode() not in content
        assert b"train_gpt" not in content
