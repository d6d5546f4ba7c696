"""Reading of what nccl-tests printed on a real cluster.

Lines of results have size, count, type, reduction and root (the last two are missing in the oldest
versions), then time, two bandwidths and errors out of place, then the same in place. Lines of the
header say which ranks there were. All else (NCCL's own log, launchers) is passed over, and so are
the tags that mpirun and srun put before each line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from phantora_py.bench.operations import DATA_TYPES
from phantora_py.bench.quantities import whole_bytes
from sim_server.errors import UsageError
from sim_server.files.toml_file import read_text

_TAG = re.compile(r"^(?:\[[^\]\s]+\]|\d+:)\s*")
# Of Open MPI, with the time it may put before it. A line that nccl-tests prints in pieces has one
# before each.
_OPEN_MPI_TAG = re.compile(r"(?:^\w{3} \w{3} +\d+ [\d:]{8} \d{4})?\[[^\]\s]+,\d+\]<std\w+>\s?:?")
_START = re.compile(r"#\s+nThread\s")
_WRONG = re.compile(r"#\s+Out of bounds values\s*:.*\bFAILED\b")
_RANK = re.compile(r"#\s+Rank\s+(\d+)\s.*?\bon\s+(\S+)\s+device\b")
_PROGRAM = re.compile(r"#.*?\b(\w+)_perf\b")
# Two numbers and a name of a type: nothing else that is printed looks so.
_LOOKS_LIKE_RESULT = re.compile(rf"\d+\s+\d+\s+(?:{'|'.join(DATA_TYPES)})\b")
# What nccl-tests prints of a time: 0.00, or something between these (assumed: ten days at most).
_LEAST_US, _MOST_US = 1e-3, 1e12


@dataclass(frozen=True)
class Measured:
    """One line of results, out of place. Units: as in nccl-tests."""

    size_bytes: int
    type: str
    time_us: float
    busbw_gb_per_s: float


@dataclass(frozen=True)
class Log:
    """A log of nccl-tests."""

    rows: list[Measured]
    ranks: int | None
    """As the header says; None without one."""
    nodes: int | None
    """Different host names in the header."""
    operation: str | None
    """As the header of later versions says."""


def read_log(path: Path) -> Log:
    """The results in a file of one run.

    Raises: UsageError, with the line that cannot be understood, or should not be relied on.
    """
    text = read_text(path, "log", errors="replace")
    rows: list[Measured] = []
    hosts: dict[int, str] = {}
    operation = None
    starts = 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = _TAG.sub("", _OPEN_MPI_TAG.sub("", raw.strip()).strip())
        starts += _START.match(line) is not None
        if starts > 1:
            raise UsageError(
                f"{path}, line {number}: a second run of nccl-tests starts here, or they were "
                "built without MPI and every process runs alone; give each run a file of its own"
            )
        if _WRONG.match(line):
            raise UsageError(
                f"{path}, line {number}: nccl-tests found wrong results ('{line}'), so that its "
                "times are not those of the work; mend that first"
            )
        if rank := _RANK.match(line):
            hosts[int(rank[1])] = rank[2]
        elif program := _PROGRAM.match(line):
            operation = program[1]
        elif _LOOKS_LIKE_RESULT.match(line):
            rows.append(_result(line, f"{path}, line {number}"))
    if not rows:
        raise UsageError(
            f"{path}: has no results of nccl-tests; they are lines with size, count, type, "
            "reduction, root, time and two bandwidths"
        )
    return Log(rows, len(hosts) or None, len(set(hosts.values())) or None, operation)


def _result(line: str, where: str) -> Measured:
    size, _, data_type, *rest = line.split()
    size_bytes = whole_bytes(size)
    if size_bytes is None:
        raise UsageError(f"{where}: no GPU has {size[:40]} bytes; is the file damaged?")
    if data_type not in DATA_TYPES:
        raise UsageError(f"{where}: {data_type!r} is no data type of NCCL's")
    if rest and rest[0].isalpha():
        rest = rest[2:]  # reduction and root
    elif len(rest) % 4 == 1:
        rest = rest[1:]  # gather and scatter once had a root without a reduction
    try:
        time_us, _, busbw_gb_per_s = map(float, rest[:3])
    except ValueError as error:
        raise UsageError(
            f"{where}: '{line}' starts like a result of nccl-tests but has no time and bandwidths "
            "where they should be; is the file cut off, or was the line wrapped?"
        ) from error
    if not (time_us == 0 or _LEAST_US <= time_us <= _MOST_US) or not isfinite(busbw_gb_per_s):
        raise UsageError(f"{where}: '{line[:200]}' has a time or a bandwidth that cannot be")
    return Measured(size_bytes, data_type, time_us, busbw_gb_per_s)
