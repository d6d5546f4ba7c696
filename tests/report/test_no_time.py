"""Iterations that take no virtual time: somebody forgot `.cuda()`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_runs import make_run

from phantora_py.cli import main
from sim_server.records import MarkerKind


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three steps of two ranks at one instant, with nothing on a GPU."""
    path = tmp_path / "a.phr"
    markers = [(rank, 100, MarkerKind.OPTIMIZER_STEP, "SGD#0") for rank in (0, 1) for _ in range(3)]
    interval = {"copy by the copy engines": [0.8, 1.3, "t"], "host": [0.5, 2.0, "t"]}
    interval |= {"communication": [0.8, 1.3, "t"]}
    gpu = {"properties": {"totalGlobalMem": 80 << 30}, "intervals": interval}
    make_run(
        path,
        [(), ()],
        markers,
        timings=[],
        settings={"gpu": gpu, "nccl_environment": {}},
        run={"cluster": {"gpu": "h100"}},
    )
    return path


@pytest.mark.parametrize("view", [[], ["--json"], ["--kernels"], ["--html"], ["--trace"]])
def test_every_view_is_made(path: Path, view: list[str]) -> None:
    """None divides by the time."""
    out = [str(path.with_suffix(".out"))] if view in (["--html"], ["--trace"]) else []
    assert main(["report", str(path), *view, *out]) == 0


def test_the_report_says_so(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And asks what may have been forgotten."""
    assert main(["report", str(path)]) == 0
    assert "iterations take no virtual time" in capsys.readouterr().out
    page = path.with_suffix(".html")
    assert main(["report", str(path), "--html", str(page)]) == 0
    assert "Iterations take no virtual time" in page.read_text()


def test_comparisons(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No ratio of nothing; the notes say why."""
    words = ["--per-iteration", "8 samples", "--price", "2"]
    files = [str(path), str(path.with_name("b.phr"))]
    path.with_name("b.phr").write_bytes(path.read_bytes())
    assert main(["compare", *files, *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [run["speed_up"] for run in found["runs"]] == [None, None]
    assert "Iterations of a take no virtual time" in " ".join(found["notes"])
    assert main(["compare", *files, *words]) == 0
    page = ["--html", str(path.with_suffix(".html"))]
    assert main(["compare", *files, *words, *page]) == 0
