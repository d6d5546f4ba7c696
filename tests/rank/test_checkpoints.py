"""Which checkpoints a rank maps; tests/e2e has whole runs."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch
FRESH = """
import sys, torch
from phantora_py.rank.checkpoints import _can_map
print(_can_map(torch, sys.argv[1], None, None))
"""


def test_a_process_that_has_saved_nothing(tmp_path: Path) -> None:
    """It finds that a file can be mapped: PyTorch imports its settings when it first saves."""
    import torch  # noqa: PLC0415

    file = tmp_path / "checkpoint.pt"
    torch.save({"weight": torch.ones(2)}, file)
    words = [sys.executable, "-P", "-c", FRESH, str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
