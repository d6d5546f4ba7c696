"""Data files made by hand whose iterations take what a test says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from made_runs import COMMUNICATION, KERNEL, make_run, span_rows

from sim_server.records import MarkerKind

US = 1000
TIMINGS = [
    {"name": "gemm bf16 64x64x64 TN", "class": "gemm", "tier": "modelled", "duration_ns": 1},
    {"name": "flash_fwd_kernel", "class": "attention", "tier": "modelled", "duration_ns": 1},
]
INTERVALS = {
    "copy by the copy engines": [0.8, 1.3, "t"],
    "communication": [0.8, 1.3, "t"],
    "host": [0.5, 2.0, "t"],
}
PROFILE = {"name": "a GPU", "properties": {"totalGlobalMem": 80 << 30}}


def certain_members() -> dict[str, Any]:
    """For `write_run`: kernels and settings with intervals."""
    interval = {"interval": [0.8, 1.25], "interval_source": "t"}
    profile = PROFILE | {"intervals": INTERVALS}
    return {
        "timings": [timing | interval for timing in TIMINGS],
        "settings": {"gpu": profile, "nccl_environment": {}},
    }


def write_run(
    path: Path,
    iterations_ns: Sequence[int],
    *,
    kernel: int = 0,
    computes_ns: int = 10 * US,
    communicates_ns: int = 0,
    ranks: int = 2,
    run: dict[str, Any] | None = None,
    **members: Any,
) -> Path:
    """In each iteration every rank waits 1 us and computes, then all of them communicate. The first
    iteration, which is warm-up, is empty and takes 100 us.
    """
    ends_ns = np.cumsum([100 * US, *iterations_ns]).tolist()
    begins_ns = [end_ns + US for end_ns in ends_ns[:-1]]
    rows = span_rows([[(KERNEL, at, at, at + computes_ns) for at in begins_ns]] * ranks, kernel)
    operations = []
    if communicates_ns:
        moves_ns = [at + computes_ns for at in begins_ns]
        spans = [(COMMUNICATION, at, at, at + communicates_ns) for at in moves_ns]
        rows = np.concatenate([rows, span_rows([spans] * ranks)])
        rows = np.sort(rows, order=["end_ns", "rank", "issue_ns", "start_ns"])
        operations = [
            {
                **{"kind": "all_reduce", "comm": 1, "bytes": 1 << 20, "members": [*range(ranks)]},
                **{"arrivals_ns": [at - US] * ranks, "moves_ns": at},
                **{"ends_ns": [at + communicates_ns] * ranks, "site": "train.py:1 main"},
            }
            for at in moves_ns
        ]
    make_run(
        path,
        [()] * ranks,
        [(rank, at, MarkerKind.ITERATION, "") for rank in range(ranks) for at in ends_ns],
        spans=rows,
        run={"cluster": {"gpu": "h100", "nic": {"per_node": 8}}, **(run or {})},
        operations=operations,
        **{
            "timings": TIMINGS,
            "settings": {"gpu": PROFILE, "nccl_environment": {}},
            **members,
        },
    )
    return path
