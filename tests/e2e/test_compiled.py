"""torch.compile: Inductor and Triton compile for the simulated GPU, and their kernels are timed."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from first_difference import differences
from phantora_runs import PROGRAMS, Phantora, Run

pytestmark = pytest.mark.torch


def train(phantora: Phantora, cache: Path, *arguments: str, ranks: int = 2) -> Run:
    command: list[str | Path] = [PROGRAMS / "compiled.py", *arguments]
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(cache), "PYTHONWARNINGS": "ignore"}
    run = phantora.run(["--ranks", str(ranks)], command, environment)
    assert run.exit_code == 0, run.errors
    return run


def triton_kernels(run: Run) -> Counter[str]:
    """How many kernels of Triton there were, by tier."""
    rows = [row for row in run.data.timings if row["name"].startswith("triton_")]
    return Counter(row["tier"] for row in rows)


def test_compiled_under_ddp(phantora: Phantora, tmp_path: Path) -> None:
    """It compiles, ends, and is the same to the nanosecond once the caches are warm."""
    cold = train(phantora, tmp_path, "ddp")
    assert cold.output.count("last step") == 2
    warm, again = train(phantora, tmp_path, "ddp"), train(phantora, tmp_path, "ddp")
    same = warm.summary["digest"] == again.summary["digest"]
    assert same, "\n".join(map(str, differences(warm.path, again.path)))
    assert triton_kernels(warm)["modelled"] > 2
    # Who prints first has no label.
    steps = re.findall(r"rank \d: last step \d+ us", cold.output)
    assert sorted(steps) == sorted(re.findall(r"rank \d: last step \d+ us", warm.output))


def test_compiled_under_fsdp(phantora: Phantora, tmp_path: Path) -> None:
    """Four ranks compile into one cache, whatever their device, and take the same time."""
    run = train(phantora, tmp_path, "fsdp", ranks=4)
    assert len(set(re.findall(r"last step (\d+) us", run.output))) == 1
    assert run.output.count("last step") == 4
    assert [folder.name for folder in (tmp_path / "triton").iterdir()] == ["0"]
    assert triton_kernels(run)["modelled"] > 2
