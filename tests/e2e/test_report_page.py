"""The page of a real run: what the program did is on it, by the names that it knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pages import page_of, section
from phantora_runs import Run

from phantora_py.text.units import duration_text

pytestmark = pytest.mark.torch


def test_page(fsdp: Run, tmp_path: Path) -> None:
    """Iteration, kernels, collectives with algorithm and Python line, every rank's streams."""
    page = page_of(fsdp.data, tmp_path / "page.html")
    median = duration_text(fsdp.summary["iterations"]["median_ns"])
    assert f"{median} iteration, median of 3" in section(page, "iteration").text
    assert {"gemm", "attention", "optimizer"} <= {row[0] for row in section(page, "kernels").rows()}
    exposed, *_, operations = section(page, "communication").all("table")
    assert {"all_gather", "reduce_scatter"} <= {row[0] for row in exposed.rows()}
    assert any(row[2].startswith("train_gpt_fsdp.py:") for row in exposed.rows())
    assert all(row[3] for row in operations.rows())
    (script,) = (one for one in page.all("script") if one.attributes.get("id") == "timeline-data")
    timeline = json.loads(script.text)
    assert timeline["length_ns"] == fsdp.summary["iterations"]["per_iteration_ns"][-1]
    for tracks in timeline["tracks"]:
        labels = [label for label, _ in tracks]
        assert labels[0] == "device"
        assert "stream 0" in labels
        assert labels[-1] == "host waits"
    path, *_ = section(page, "path").all("table")
    assert path.rows()[0][0] == "kernels"
    assert fsdp.summary["critical_path"]["length_ns"] == timeline["length_ns"]
    texts = {text for _, text, _ in timeline["names"]}
    assert any(text.startswith("all_gather ") for text in texts)


def test_links_and_memory(fsdp: Run, tmp_path: Path) -> None:
    """What the server kept of them: NVLink's use, what limited operations, who took memory."""
    page = page_of(fsdp.data, tmp_path / "page.html")
    assert "NVLink gpu 0.0 to nvswitch 0" in section(page, "links").text
    *_, operations = section(page, "communication").all("table")
    assert all(row[8] for row in operations.rows())
    *_, live = section(page, "memory").all("table")
    assert any(row[0] == "device" and row[1].startswith("gpt.py:") for row in live.rows())
    peaks = fsdp.summary["memory"]["peak_device_bytes"]
    assert max(one.in_use_bytes for one in fsdp.data.allocations) == max(peaks)
