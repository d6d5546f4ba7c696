"""Data files made by hand, as docs/data-file.md describes them."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from phantora_py.data import RunData
from sim_server.records import MarkerKind
from sim_server.run_log import SPAN_TYPE

KERNEL, COPY, FILL, COMMUNICATION, HOST_WAIT = range(1, 6)
Span = tuple[int, int, int, int]
"""Kind, issue, start, end."""
Marker = tuple[int, int, MarkerKind, str]


def span_rows(by_rank: Sequence[Sequence[Span]], identifier: int = 0) -> Any:
    """spans.npy: rows sorted by rank and issue time."""
    rows = np.zeros(sum(map(len, by_rank)), SPAN_TYPE)
    flat = [(rank, *span) for rank, spans in enumerate(by_rank) for span in spans]
    for row, (rank, kind, issue_ns, start_ns, end_ns) in zip(rows, flat, strict=True):
        row["rank"], row["kind"], row["id"] = rank, kind, identifier
        row["issue_ns"], row["start_ns"], row["end_ns"] = issue_ns, start_ns, end_ns
    return np.sort(rows, order=["rank", "issue_ns", "start_ns", "end_ns"])


def run_json(ranks: int, **changes: Any) -> dict[str, Any]:
    """run.json of a run that finished."""
    return {
        **{"schema": 1, "command": ["python", "train.py"], "ranks": ranks, "nodes": 1},
        **{"gpus_per_node": ranks, "cluster": {}, "cluster_name": "h100", "host_time": "fixed"},
        **{"isolation": {"tier": "T0", "reason": "plain processes"}, "notes": []},
        **{"exit_code": 0, "failed_rank": None, "message": "", "seed": 0, "digest": "d1"},
        "versions": {"python": "3.11.7", "torch": "2.15.0", "cuda": "13.2", "phantora": "0.1.0"},
        "wall": {"total_s": 10.0, "startup_s": 4.0, "core_seconds": 18.5},
        **changes,
    }


def rank_memory(**changes: Any) -> dict[str, Any]:
    """One rank's entry of memory.json."""
    gib = 1 << 30
    return {
        **{"allocated_peak_bytes": 2 * gib, "reserved_peak_bytes": 3 * gib},
        **{"device_peak_bytes": 4 * gib, "context_bytes": gib, "nccl_bytes": 0, "oom": []},
        **changes,
    }


def make_run(
    path: Path,
    by_rank: Sequence[Sequence[Span]] = ((),),
    markers: Sequence[Marker] = (),
    *,
    spans: Any = None,
    run: dict[str, Any] | None = None,
    leave_out: Sequence[str] = (),
    **members: Any,
) -> RunData:
    """Writes a data file and opens it. `members`: content of further JSON members."""
    ranks = len(by_rank)
    ordered = sorted(markers, key=lambda marker: marker[:2])
    content: dict[str, Any] = {
        "timings": [
            {"name": "k", "class": "gemm", "tier": "modelled", "duration_ns": 1, "count": 1}
        ],
        "settings": {"nccl_environment": {}},
        **{"operations": [], "calls": {}, "synthetic": [], "exits": {}},
        "markers": [[rank, time_ns, int(kind), name] for rank, time_ns, kind, name in ordered],
        "memory": {"capacity_bytes": 80 << 30, "per_rank": [rank_memory()] * ranks},
        **members,
        "run": {**run_json(ranks), **(run or {})},
    }
    buffer = io.BytesIO()
    np.save(buffer, span_rows(by_rank) if spans is None else spans)
    files = {f"{name}.json": json.dumps(value).encode() for name, value in content.items()}
    files["spans.npy"] = buffer.getvalue()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            if name not in leave_out:
                archive.writestr(name, data)
    return RunData(path)
