"""Ranks that start slowly, on a machine that is busy, and are looked at all the time.

amounts.py says how many starts there are, PHANTORA_ATTACK_RANKS of how many ranks (4).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from amounts import runs
from interrupted_runs import Command

from phantora_py.agent.whereabouts import whereabouts

STARTS = runs(1, one_in=10)
RANKS = int(os.environ.get("PHANTORA_ATTACK_RANKS", "4"))
EXAMPLE = Path(__file__).parents[2] / "examples" / "train_gpt_fsdp.py"
LAYERS = 16


@contextmanager
def load() -> Iterator[None]:
    """Keeps every processor busy."""
    words = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(words) for _ in range(len(os.sched_getaffinity(0)))]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@pytest.mark.torch
@pytest.mark.timeout(3600)
def test_ranks_are_looked_at_while_they_start() -> None:
    """All runs end well, and most looks find a line."""
    seen: Counter[bool] = Counter()
    for _ in range(STARTS):
        with tempfile.TemporaryDirectory() as directory, load():
            command = Command(
                (
                    *("run", "--ranks", str(RANKS), "--", sys.executable, str(EXAMPLE)),
                    *("--layers", str(LAYERS), "--steps", "1", "--batch", "1"),
                ),
                Path(directory),
            )
            while command.is_under_way():
                seen.update(", at /" in answer for answer in command.whereabouts(whereabouts))
                time.sleep(0.01)
            assert command.wait().code == 0, command.output
            assert command.left() == []
    assert seen[True] > seen[False], seen
