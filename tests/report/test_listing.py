"""The list of kernels by doubt."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_runs import COPY, KERNEL, make_run, span_rows

from phantora_py.cli import main

KINDS = [
    ("known", "gemm", "measured", 500),
    ("small guess", "norm", "assumed", 100),
    ("fitted", "gemm", "modelled", 600),
    ("stranger", "other", "assumed", 50),
    ("large guess", "norm", "assumed", 200),
    ("great stranger", "other", "assumed", 70),
]


def test_the_largest_unknown_comes_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then what is assumed, modelled, measured, the longest first; shares are of all of it."""
    at, spans = 0, []
    for _, _, _, lasts in KINDS:
        spans.append((KERNEL, at, at, at + lasts))
        at += lasts
    spans.append((COPY, at, at, at + 480))
    rows = span_rows([spans] * 2)
    for number, (_, _, _, lasts) in enumerate(KINDS):
        rows["id"][(rows["end_ns"] - rows["start_ns"]) == lasts] = number
    timings = [
        {"name": name, "class": kernel_class, "tier": tier, "duration_ns": lasts}
        for name, kernel_class, tier, lasts in KINDS
    ]
    make_run(tmp_path / "a.phr", [(), ()], spans=rows, timings=timings)
    assert main(["report", str(tmp_path / "a.phr"), "--kernels"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Of the whole run, means over GPUs.")
    by_class, by_kernel = (part.split("\n") for part in said.split("\n\n")[1:])
    names = ["great stranger", "stranger", "large guess", "small guess", "fitted", "copy", "known"]
    found = [next((name for name in names if name in line), None) for line in by_kernel]
    assert [name for name in found if name] == names
    classes = [" ".join(line.split()) for line in by_class]
    assert "other assumed 2 2 120 ns 6.0 %" in classes
    assert "norm assumed 2 2 300 ns 15.0 %" in classes
    assert "gemm measured 1 1 500 ns 25.0 %" in classes


def test_no_kernel_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that computed nothing says so."""
    make_run(tmp_path / "a.phr")
    assert main(["report", str(tmp_path / "a.phr"), "--kernels"]) == 0
    assert capsys.readouterr().out == "No kernel ran.\n"
