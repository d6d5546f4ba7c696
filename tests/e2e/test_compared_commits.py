"""The script of action.yml: a command at two commits, and what is said of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
PROGRAM = """\
import torch

layer = torch.nn.Linear({width}, {width}, device="cuda")
optimizer = torch.optim.SGD(layer.parameters())
for _ in range(4):
    layer(torch.zeros(4096, {width}, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
GATE = "--gate 'iteration_time<=1.02'"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A commit, and a slower one on top."""
    folder = tmp_path / "checkout"
    (folder / "training").mkdir(parents=True)
    git(folder, "init", "--quiet")
    for width in (1024, 4096):
        (folder / "training" / "train.py").write_text(PROGRAM.format(width=width))
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", f"width {width}")
    return folder


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=someone", "-c", "user.email=someone@example.com")
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


def compare(checkout: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """In the folder of the program, as a step of a job does."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    results = checkout.parent / "results"
    given = {
        "BASE": "HEAD~1",
        "RUN": "--quiet --ranks 1 -- python train.py",
        "TABLES": str(results / "tables.md"),
        "GITHUB_STEP_SUMMARY": str(checkout.parent / "summary.md"),
        **variables,
    }
    return subprocess.run(
        ["bash", str(ROOT / "tools" / "compare_commits.sh")],
        cwd=checkout / "training",
        env={**os.environ, "PATH": path, **given},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_slower_change_does_not_pass(checkout: Path) -> None:
    """The job fails with the gate, has the tables, and its checkout is as it was."""
    done = compare(checkout, COMPARE=GATE)
    assert done.returncode == 6, done.stderr
    tables = (checkout.parent / "results" / "tables.md").read_text()
    assert (checkout.parent / "summary.md").read_text() == tables
    speed_up = re.search(r"\| change \|.*\| (0\.\d+) \(", tables)
    assert speed_up, tables
    assert float(speed_up[1]) < 0.5
    assert len(git(checkout, "worktree", "list").splitlines()) == 1
    assert git(checkout, "status", "--porcelain") == ""


def test_an_equal_change_passes(checkout: Path) -> None:
    """Both runs are of the same program."""
    done = compare(checkout, COMPARE=GATE, BASE="HEAD")
    assert done.returncode == 0, done.stderr


def test_a_change_that_fails_does_not_pass(checkout: Path) -> None:
    """Nor is anything compared."""
    (checkout / "training" / "train.py").write_text("raise ValueError('broken')\n")
    done = compare(checkout, COMPARE=GATE)
    assert done.returncode not in (0, 6)
    assert "broken" in done.stderr
    assert not (checkout.parent / "results" / "tables.md").exists()


def test_the_action_calls_it() -> None:
    """With every variable that it reads."""
    action = (ROOT / "action.yml").read_text(encoding="utf-8")
    script = (ROOT / "tools" / "compare_commits.sh").read_text(encoding="utf-8")
    assert 'bash "$GITHUB_ACTION_PATH/tools/compare_commits.sh"' in action
    for name in re.findall(r"^#   ([A-Z]+) ", script, re.MULTILINE):
        assert f"        {name}: ${{{{ " in action, name
