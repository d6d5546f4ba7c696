"""Ranks start under releases of PyTorch whose operators are replaced in other ways.

Such a release is made of the installed one (programs/older_pytorch); `nox -s versions` trains with
real ones.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from phantora_runs import PROGRAMS, Phantora

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("release", ["2.8", "2.14"])
def test_operators_are_replaced(phantora: Phantora, tmp_path: Path, release: str) -> None:
    """Each of them, and results that small operations decide are known."""
    rows = tmp_path / "rows.json"
    run = phantora.run(
        ["--ranks", "1", "--no-zygote"],
        [
            *(PROGRAMS / "operator_table.py", "--out", str(rows)),
            *("--only", "nonzero,sort", "--samples", "1"),
        ],
        {
            "PHANTORA_TEST_RELEASE": release,
            "PYTHONPATH": str(PROGRAMS / "older_pytorch"),
        },
    )
    assert run.exit_code == 0, run.errors
    assert {verdict for *_, verdict, _, _ in json.loads(rows.read_text())} == {"right"}
    # Host tensors, whose operators are ours, too.
    is_filled = "large host tensors are filled" in run.errors
    assert is_filled == (release == "2.8"), run.errors
