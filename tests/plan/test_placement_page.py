"""The page of a plan: every rank's bar has its tables, and names are no HTML."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from phantora_py.cli import main

_NAMES = ("a", "b", "<i>c")


def _arguments(folder: Path, *more: str) -> list[str]:
    tables = [
        {"name": name, "rows": 10_000 * (n + 1), "dim": 64, "pooling": 5 * (n + 1)}
        for n, name in enumerate(_NAMES)
    ]
    path = folder / "tables.json"
    path.write_text(json.dumps(tables), encoding="utf-8")
    options = ["--ranks", "2", "--cluster", "a100", "--batch", "512", "--search", "greedy"]
    return ["plan", "--tables", str(path), *options, *more]


def test_every_rank_has_its_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One bar for each rank, the longest the whole width, one part for each of its tables; a row
    for each table. Nothing of the file's names is HTML.
    """
    page = tmp_path / "plan.html"
    assert main(_arguments(tmp_path, "--html", str(page), "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    text = page.read_text(encoding="utf-8")
    bars = re.findall(r'<div class="bar" style="width: ([\d.]+)%".*?</div>', text, re.DOTALL)
    assert len(bars) == 2
    assert max(map(float, bars)) == 100
    parts = re.findall(r'title="(\S+): ', text)
    assert "copied tables" not in text  # None is copied here.
    shards = sum(len(one["ranks"]) for one in found["tables"])
    assert len(parts) == shards
    assert set(parts) == {"a", "b", "&lt;i&gt;c"}
    assert "<i>c" not in text
    assert text.count('<td class="name">') == 3


def test_a_page_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before the search, with the option; also the file of tables, or of the plan."""
    for path in (tmp_path / "no" / "page.html", tmp_path / "tables.json", tmp_path / "plan.json"):
        plan = str(tmp_path / "plan.json")
        assert main(_arguments(tmp_path, "--html", str(path), "-o", plan)) == 2
        assert "--html" in capsys.readouterr().err
        assert not (tmp_path / "plan.json").exists()
