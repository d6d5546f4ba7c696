"""The numbers of CUDA's calls are those of CUPTI's headers."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path

import pytest
from callback_ids import HEADERS, callback_rows, find_header, read_ids
from interception_tables import SHIM

RECORDED = SHIM / "cupti" / "callback_ids.def"
ROW = re.compile(r"CALLBACK\((Runtime|Driver), (\w+), (\d+), (\w+)\)")
SITE = Path(sysconfig.get_path("purelib"))


def recorded() -> list[tuple[str, str, int, str]]:
    rows = [ROW.fullmatch(line) for line in RECORDED.read_text("ascii").splitlines()]
    return [(row[1], row[2], int(row[3]), row[4]) for row in rows if row is not None]


def test_rows_are_well_formed() -> None:
    """Each line is a row; no call has two numbers and no number two calls."""
    rows = recorded()
    assert len(rows) == len(RECORDED.read_text("ascii").splitlines())
    assert len({row[:2] for row in rows}) == len({(row[0], row[2]) for row in rows}) == len(rows)


@pytest.mark.parametrize("domain", HEADERS)
def test_numbers_are_the_headers(domain: str) -> None:
    """Of the installed CUPTI, whichever version it is: a number keeps its meaning."""
    _, name, prefix = HEADERS[domain]
    if not any(SITE.glob(f"nvidia/*/include/{name}")):
        pytest.skip("no wheel of CUPTI: pip install nvidia-cuda-cupti")
    numbers = set(read_ids(find_header(SITE, name), prefix).values())
    ours = {row[2] for row in recorded() if row[0] == domain}
    assert numbers & ours == {number for number in ours if number <= max(numbers)}


def test_a_new_version_of_a_call_has_its_own_row(tmp_path: Path) -> None:
    """The second of two that CUPTI tells apart by CUDA's version is exported as `_v2`."""
    include = tmp_path / "nvidia" / "cu13" / "include"
    include.mkdir(parents=True)
    runtime, driver = (HEADERS[domain] for domain in ("Runtime", "Driver"))
    (include / runtime[1]).write_text(
        f"{runtime[2]}INVALID = 0,\n"
        f"{runtime[2]}cudaEventElapsedTime_v3020 = 139,\n"
        f"{runtime[2]}cudaEventElapsedTime_v12080 = 486,\n"
        f"{runtime[2]}__cudaLaunchKernel_v13000 = 505,\n"
        f"{runtime[2]}SIZE = 559,\n",
        encoding="ascii",
    )
    (include / driver[1]).write_text(f"{driver[2]}cuMemAlloc_v2 = 243,\n", encoding="ascii")
    assert callback_rows(tmp_path) == [
        "CALLBACK(Runtime, cudaEventElapsedTime, 139, cudaEventElapsedTime_v3020)",
        "CALLBACK(Runtime, cudaEventElapsedTime_v2, 486, cudaEventElapsedTime_v12080)",
        "CALLBACK(Driver, cuMemAlloc_v2, 243, cuMemAlloc_v2)",
    ]
