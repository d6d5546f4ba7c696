"""Results of PyTorch's own table of operators are right, or known to be unknown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from phantora_runs import PROGRAMS, Phantora

pytestmark = pytest.mark.torch
VALUES_PAGE = Path(__file__).parents[2] / "docs" / "values.md"
# A few of each kind; `operator_table.py` without --only goes through all of them.
SAMPLE = (
    "argsort,bincount,bucketize,cummax,cumsum,eq,flip,gather,histc,index_add,index_put,index_select,"
    "isin,masked_fill,masked_select,nonzero,put,remainder,repeat_interleave,roll,scatter_add,"
    "searchsorted,sort,take,tril,unique,unique_consecutive,where,_foreach_maximum,_foreach_abs"
)


def test_a_sample_of_the_table_is_right(phantora: Phantora, tmp_path: Path) -> None:
    """Functions, in-place and `out=`: none differs from the CPU's, most are known."""
    rows = table_rows(phantora, tmp_path / "rows.json", "--only", SAMPLE, "--samples", "1")
    wrong = [row for row in rows if row[3].startswith(("wrong", "raised"))]
    assert wrong == []
    # What is only read keeps its values.
    assert [row for row in rows if row[4].startswith("wrong")] == []
    count = {
        verdict: sum(row[5] for row in rows if row[3] == verdict)
        for verdict in ("right", "unknown")
    }
    assert count["right"] > 10 * count["unknown"], count
    assert count["right"] > 100
    assert {row[0] for row in rows if row[3] == "unknown"} & operators_right() == set()


def operators_right() -> set[str]:
    """Those that docs/values.md lists as right with every release."""
    page = VALUES_PAGE.read_text()
    sections = re.findall(r"^## Right with [0-9.]+\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.M)
    right = [set(re.findall(r"`([^`]+)`", section)) for section in sections]
    assert right
    assert all(len(names) > 50 for names in right)
    return set.intersection(*right)


def table_rows(phantora: Phantora, path: Path, *options: str) -> list[list[Any]]:
    run = phantora.run(
        ["--ranks", "1"], [PROGRAMS / "operator_table.py", "--out", str(path), *options]
    )
    assert run.exit_code == 0, run.errors
    rows: list[list[Any]] = json.loads(path.read_text())
    return rows
