"""`phantora cache`: what it prints, and what becomes of damaged files."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from caches import H100, make_cache, measurement, product

from phantora_py.cli import main
from sim_server.timing_cache import Failure, TimingCache


def cache(*words: object) -> int:
    return main(["cache", *map(str, words)])


def test_listing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each environment; a row for each entry that is asked for."""
    path = make_cache(
        tmp_path / "c",
        measurement(product(8), 2e5, 3e5, 4e5, cold_ns=(6e5,)),
        measurement(product(16), 1e3),
    )
    assert cache("ls", path) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "NVIDIA H100 80GB HBM3 580.105.08 13.2 cublas 13.4 2 4 2026-01-02T03:04:05" in said
    assert cache("show", path, '*"m": 8,*') == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "300 us 16.7 % 600 us 3 1.98 GHz 2026-01-02 test" in said
    assert "1.00 us" not in said


def test_failures_are_told_exported_and_pruned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the reason, and counted apart; after `prune` they are tried again, and measurements
    stay.
    """
    path = make_cache(tmp_path / "c", measurement(product(8), 2e5, origin="phantora run"))
    failure = Failure(product(9), "the executor died of it", "2026-01-02T03:04:05", "phantora run")
    with TimingCache(path, write=True) as opened:
        opened.add([(H100, failure)])
    assert cache("ls", path) == 0
    assert "1 signatures are not measured again" in capsys.readouterr().out
    assert cache("show", path) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "the executor died of it" in said
    assert "2026-01-02 phantora run" in said
    text, copy = tmp_path / "c.jsonl", tmp_path / "d"
    both = "1 measurements and 1 failures"
    for words, told in (
        (("verify", path), f"{path} is whole: {both}\n"),
        (("export", path, "-o", text), f"Wrote {text} ({both})\n"),
        (("import", copy, text), f"1 of 1 measurements and 1 of 1 failures are new to {copy}\n"),
        (("merge", copy, path), f"0 of 1 measurements and 0 of 1 failures are new to {copy}\n"),
    ):
        assert cache(*words) == 0
        assert capsys.readouterr().out == told
    with TimingCache(copy) as opened:
        assert list(opened.failures()) == [(H100, failure)]
    assert cache("prune", path, "--origin", "phantora run", "--failures") == 0
    assert f"0 measurements and 1 failures were removed from {path}" in capsys.readouterr().out
    assert cache("prune", copy, "--origin", "phantora run") == 0
    assert f"{both} were removed from {copy}" in capsys.readouterr().out
    with TimingCache(path) as opened:
        assert list(opened.failures()) == []
        assert len(opened.entries()) == 1


def test_everything_is_told_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What each verb prints with --json is one object with its figures, and nothing else."""
    path = make_cache(tmp_path / "c", measurement(product(8), 2e5, 3e5, 4e5, cold_ns=(6e5,)))
    failure = Failure(product(9), "the executor died of it", "2026-01-02T03:04:05", "phantora run")
    with TimingCache(path, write=True) as opened:
        opened.add([(H100, failure)])
    both = {"measurements": 1, "failures": 1}

    def told(*words: object) -> object:
        assert cache(*words, "--json") == 0
        return json.loads(capsys.readouterr().out)

    where = dataclasses.asdict(H100)
    row = {"entries": 1, "samples": 3, "latest": "2026-01-02T03:04:05"}
    assert told("ls", path) == {"environments": [where | row], "failures": 1}
    assert told("show", path, '*"m": 8,*') == {
        "entries": [
            {
                "signature": product(8),
                "environment": where,
                "median_ns": 3e5,
                "spread": pytest.approx(1 / 6),
                "warm_ns": [2e5, 3e5, 4e5],
                "cold_ns": [6e5],
                "sm_khz": 1_980_000,
                "date": "2026-01-02T03:04:05",
                "origins": ["test"],
            }
        ],
        "failures": [],
    }
    assert told("show", path, '*"m": 9,*') == {
        "entries": [],
        "failures": [{"environment": where} | dataclasses.asdict(failure)],
    }
    text, copy = tmp_path / "c.jsonl", tmp_path / "d"
    assert told("verify", path) == {"file": str(path), **both}
    assert told("export", path, "-o", text) == {"output": str(text), **both}
    assert told("import", copy, text) == {"file": str(copy), "given": both, "new": both}
    none = {"measurements": 0, "failures": 0}
    assert told("merge", copy, path) == {"file": str(copy), "given": both, "new": none}
    removed = {"measurements": 0, "failures": 1}
    assert told("prune", copy, "--failures") == {"file": str(copy), "removed": removed}


def test_text_there_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Export and import keep everything; a second import adds nothing; a wrong line is named."""
    path = make_cache(tmp_path / "c", *(measurement(product(m), 1.5, 2.5) for m in (1, 2, 3)))
    text = tmp_path / "c.jsonl"
    assert cache("export", path, "-o", text) == 0
    assert cache("import", tmp_path / "d", text) == 0
    assert "3 of 3 measurements are new" in capsys.readouterr().out
    with TimingCache(path) as one, TimingCache(tmp_path / "d") as other:
        assert one.entries() == other.entries()
    assert cache("import", tmp_path / "d", text) == 0
    assert "0 of 3 measurements are new" in capsys.readouterr().out
    text.write_text(text.read_text() + '{"gpu": "x"}\n')
    assert cache("import", tmp_path / "e", text) == 2
    assert "line 4 is no measurement" in capsys.readouterr().err
    assert not (tmp_path / "e").exists()


def test_merge_and_prune(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Measurements of both are kept; what all options match is removed."""
    old = dataclasses.replace(H100, cuda="12.8")
    one = make_cache(tmp_path / "a", measurement(product(1), 1.0, origin="suite"))
    other = make_cache(tmp_path / "b", measurement(product(1), 1.0), environment=old)
    merged = tmp_path / "c"
    assert cache("merge", merged, one, other) == 0
    assert cache("prune", merged, "--cuda", "12.*", "--origin", "suite") == 0
    assert "0 measurements were removed" in capsys.readouterr().out
    assert cache("prune", merged, "--before", "2026-01-01") == 0
    assert "0 measurements were removed" in capsys.readouterr().out
    assert cache("prune", merged, "--cuda", "12.*") == 0
    assert "1 measurements were removed" in capsys.readouterr().out
    with TimingCache(merged) as left:
        assert [entry.environment for entry in left.entries()] == [H100]
    assert cache("prune", merged) == 2
    assert "prune needs to know what" in capsys.readouterr().err
    assert cache("prune", tmp_path / "none", "--cuda", "1") == 2


def test_damaged_files_are_named_and_set_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever was asked of it; a damaged source of a merge stays, and nothing is merged."""
    path = make_cache(tmp_path / "c", measurement(product(1), 1.0))
    assert cache("verify", path) == 0
    assert "is whole: 1 measurements" in capsys.readouterr().out
    path.write_bytes(path.read_bytes()[:-1000])
    target = make_cache(tmp_path / "d")
    assert cache("merge", target, path) == 2
    assert "Nothing was merged" in capsys.readouterr().err
    assert path.exists()
    assert cache("verify", path) == 2
    said = capsys.readouterr().err
    assert f"the cache {path} is damaged: " in said
    assert not path.exists()
    assert list(tmp_path.glob("c.damaged-*"))
