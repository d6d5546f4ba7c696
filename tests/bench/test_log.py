"""Reading of nccl-tests' output."""

from __future__ import annotations

from pathlib import Path

import pytest

from phantora_py.bench.log import Measured, read_log
from sim_server.errors import UsageError

HEADER = """\
# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5
# Using devices
#  Rank  0 Group  0 Pid  12345 on     node-a device  0 [0x1b] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  12346 on     node-b device  0 [0x1b] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw #wrong     time
"""
RESULT = "        1024           256     float     sum      -1    11.00    0.09    0.10      0"
IN_PLACE = "    10.90    0.09    0.09      0"


def write(path: Path, text: str) -> Path:
    file = path / "log.txt"
    file.write_text(text)
    return file


def test_header_and_results(tmp_path: Path) -> None:
    """Ranks and nodes come from the header; NCCL's own log between the lines is passed over."""
    noise = "node-a:1:2 [0] NCCL INFO 24 coll channels, 16 nvls channels\n# Out of bounds: 0 OK\n"
    log = read_log(write(tmp_path, f"{HEADER}{noise}{RESULT}{IN_PLACE}\n{noise}"))
    assert (log.ranks, log.nodes, log.operation) == (2, 2, None)
    assert log.rows == [Measured(1024, "float", 11.0, 0.10)]


@pytest.mark.parametrize(
    "line",
    [
        RESULT,
        RESULT + IN_PLACE,
        f"[1,0]<stdout>:{RESULT}{IN_PLACE}",
        f"[1,0]<stdout>:{RESULT}[1,0]<stdout>:{IN_PLACE}",
        f"[prterun-node-a-77@1,0]<stdout>: {RESULT}{IN_PLACE}",
        f"Sat Nov  1 09:05:00 2025[1,0]<stdout>:{RESULT}{IN_PLACE}",
        f"0: {RESULT}{IN_PLACE}",
        RESULT.replace("sum      -1", "none      0"),
        RESULT.replace("sum      -1", ""),
        RESULT.replace("sum      -1", "") + IN_PLACE,
        RESULT.replace("sum      -1", "         0") + IN_PLACE,
        RESULT.replace("11.00", "   11").replace("      0", "    N/A") + IN_PLACE,
    ],
)
def test_forms_of_a_result(tmp_path: Path, line: str) -> None:
    """Tags of launchers, older versions without reduction or root, and unchecked results."""
    assert read_log(write(tmp_path, line)).rows == [Measured(1024, "float", 11.0, 0.10)]


def test_operation_of_later_versions(tmp_path: Path) -> None:
    """The header names the program."""
    text = f"# Collective test starting: all_gather_perf\n{RESULT}\n"
    assert read_log(write(tmp_path, text)).operation == "all_gather"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing of the kind\n", "has no results of nccl-tests"),
        (f"{RESULT}\n{RESULT[:60]}\n", "log.txt, line 2: '1024 .* is the file cut off"),
        ("1024 256 float sum -1 11.00 fast 0.09 0\n", "line 1: .* no time and bandwidths"),
        (
            f"{10**16} 256 float sum -1 11.00 0.09 0.09 0\n",
            "line 1: no GPU has 1.* is the file dam",
        ),
        (f"1{5000 * '0'} 1 float sum -1 11.00 0.09 0.09 0\n", "line 1: no GPU has 1000"),
        ("1024 256 float sum -1 1e999 0.09 0.09 0\n", "line 1: .* time or a bandwidth that cannot"),
        ("1024 256 float sum -1 1e-99 0.09 0.09 0\n", "line 1: .* time or a bandwidth that cannot"),
        ("1024 256 float sum -1 11.00 0.09 nan 0\n", "line 1: .* time or a bandwidth that cannot"),
        (f"{RESULT}\n# Out of bounds values : 3 FAILED\n", "line 2: .* found wrong results"),
        (f"{HEADER}{RESULT}\n{HEADER}{RESULT}\n", "line 7: a second run .* without MPI"),
    ],
)
def test_bad_log(tmp_path: Path, text: str, message: str) -> None:
    """The line that cannot be understood is named."""
    with pytest.raises(UsageError, match=message):
        read_log(write(tmp_path, text))


def test_missing_log(tmp_path: Path) -> None:
    """A path that is none is the user's error."""
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_log(tmp_path / "none.txt")


def test_a_file_that_is_no_log(tmp_path: Path) -> None:
    """It is refused before it fills the memory."""
    path = tmp_path / "disk.img"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UsageError, match="is larger than 64 MiB"):
        read_log(path)
