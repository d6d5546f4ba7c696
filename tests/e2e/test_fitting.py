"""`phantora fit` of a program whose memory is known by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from conforming import check_conforms
from phantora_runs import PROGRAMS, Phantora

from phantora_py.cli import main

pytestmark = pytest.mark.torch

GIB = 1 << 30
COMMAND = [sys.executable, str(PROGRAMS / "fills_memory.py")]


def test_the_largest_batch_and_what_is_at_the_peak(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 79.2 GiB weight, gradient and momentum take 3 GiB, a sample 2, with --checkpoint 1."""
    words = ["fit", "--flag", "--batch", "--try", "--checkpoint", "-o", str(tmp_path / "fit")]
    assert main([*words, "--json", "--", *COMMAND, "--batch", "4"]) == 0
    found = json.loads(capsys.readouterr().out)
    check_conforms(found, "fit")
    as_given, expandable, checkpoint, together = found["tried"]
    assert 36 <= as_given["largest"] <= 38
    assert as_given["largest"] <= expandable["largest"] <= 38
    assert 2 * as_given["largest"] - 2 <= checkpoint["largest"] <= 2 * as_given["largest"] + 3
    assert together["largest"] >= checkpoint["largest"]
    assert as_given["refusal"]["value"] == as_given["largest"] + 1
    kinds = as_given["kinds"]
    for kind in ("parameters", "optimizer"):
        assert kinds[f"{kind}_bytes"] == GIB
    others = kinds["gradients_bytes"] + kinds["activations_bytes"] + kinds["temporary_bytes"]
    assert others == pytest.approx(2 * as_given["largest"] * GIB + GIB, abs=GIB)
    sizes = [value for name, value in kinds.items() if name.endswith("_bytes")]
    assert sum(sizes) == as_given["peak_bytes"]
    # A second time nothing is run.
    assert main([*words, "--", *COMMAND, "--batch", "4"]) == 0
    said = capsys.readouterr()
    assert all("(before)" in line for line in said.err.splitlines())
    assert f"as given   {as_given['largest']}   peak " in said.out


def test_another_failure_is_no_lack_of_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The search ends there and says so."""
    words = ["fit", "--flag", "--batch", "-o", str(tmp_path / "fit"), "--quiet"]
    assert main([*words, "--", *COMMAND, "--fault"]) == 4
    assert "--batch 1 (as given) failed, and not for want of memory" in capsys.readouterr().err


def test_kinds_change_no_time(phantora: Phantora) -> None:
    """With and without them the history is the same."""
    plain = phantora.run(["--ranks", "1"], COMMAND[1:])
    told = phantora.run(["--ranks", "1", "--memory-kinds"], COMMAND[1:])
    assert plain.exit_code == 0, plain.errors
    assert plain.summary["digest"] == told.summary["digest"]
    assert plain.summary["memory"]["kinds"] is None
    assert told.summary["memory"]["kinds"]["parameters_bytes"] == GIB
