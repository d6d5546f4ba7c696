"""Data files made by hand, as docs/data-file.md describes them."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from phantora_py.data import SCHEMA, RunData
from phantora_py.data.schema import END_KEYS
from sim_server.log.history import SPAN_TYPE
from sim_server.log.scopes import BLOCK_TYPE, SCOPE_TYPE
from sim_server.records import CopyKind, MarkerKind, WaitKind

KERNEL, COPY, FILL, COMMUNICATION, HOST_WAIT = range(1, 6)
Span = tuple[int, int, int, int]
"""Kind, issue, start, end."""
Marker = tuple[int, int, MarkerKind, str]

_IDS: dict[int, int] = {COPY: CopyKind.HOST_TO_DEVICE, HOST_WAIT: WaitKind.STREAM}


def span_rows(by_rank: Sequence[Sequence[Span]], identifier: int = 0) -> Any:
    """Rows of spans, in the order of the server: by the time at which they end."""
    rows = np.zeros(sum(map(len, by_rank)), SPAN_TYPE)
    flat = [(rank, *span) for rank, spans in enumerate(by_rank) for span in spans]
    for row, (rank, kind, issue_ns, start_ns, end_ns) in zip(rows, flat, strict=True):
        row["rank"], row["kind"], row["id"] = rank, kind, _IDS.get(kind, identifier)
        row["issue_ns"], row["start_ns"], row["end_ns"] = issue_ns, start_ns, end_ns
    return np.sort(rows, order=["end_ns", "rank", "issue_ns", "start_ns"])


def run_json(ranks: int, **changes: Any) -> dict[str, Any]:
    """run.json of a run that finished."""
    return {
        **{"schema": SCHEMA, "command": ["python", "train.py"], "ranks": ranks, "nodes": 1},
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
    scopes: Sequence[tuple[int, ...]] = (),
    peak_blocks: Sequence[tuple[int, ...]] = (),
    **members: Any,
) -> RunData:
    """Writes a data file and opens it. `members`: content of further JSON members."""
    ranks = len(by_rank)
    content: dict[str, Any] = {
        "timings": [{"name": "k", "class": "gemm", "tier": "modelled", "duration_ns": 1}],
        **{"operations": [], "allocations": [], "calls": {}, "synthetic": [], "exits": {}},
        "markers": [[rank, time_ns, int(kind), name] for rank, time_ns, kind, name in markers],
        "memory": {"capacity_bytes": 80 << 30, "per_rank": [rank_memory()] * ranks},
        **members,
    }
    pieces = {
        name: content.pop(name, [])
        for name in (
            *("timings", "operations", "markers", "allocations"),
            *("batches", "recomputations", "modules"),
        )
    }
    rows = span_rows(by_rank) if spans is None else spans
    if not pieces["operations"] and COMMUNICATION in rows["kind"]:
        pieces["operations"] = [{}]
    pieces["operations"] = [_operation(one, ranks) for one in pieces["operations"]]
    start = run_json(ranks) | (run or {})
    files = {"start.json": _json({key: start[key] for key in start if key not in END_KEYS})}
    gpu = {"properties": {"totalGlobalMem": 80 << 30}, "peak_per_s": {"bf16": 1e15, "f32": 6e13}}
    settings = {"gpu": gpu, "nccl_environment": {}}
    files["settings.json"] = _json(settings | content.pop("settings", {}))
    for number, half in enumerate((slice(0, len(rows) // 2), slice(len(rows) // 2, None))):
        for name, whole in pieces.items():
            middle = len(whole) // 2
            part = whole[:middle] if number == 0 else whole[middle:]
            files[f"{name}/{number:06}.json"] = _json(part)
        files[f"spans/{number:06}.npy"] = _array(rows[half])
    for name, rows_of, row_type in (
        ("scopes", scopes, SCOPE_TYPE),
        ("peak_blocks", peak_blocks, BLOCK_TYPE),
    ):
        if rows_of:
            files[f"{name}/000000.npy"] = _array(np.array(rows_of, row_type))
    files |= {f"{name}.json": _json(value) for name, value in content.items()}
    files["run.json"] = _json(start)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            if name not in leave_out:
                archive.writestr(name, data)
    return RunData(path)


def _operation(changes: dict[str, Any], ranks: int) -> dict[str, Any]:
    """An operation of all ranks with these changes; its members are ranks that there are."""
    operation: dict[str, Any] = {
        **{"kind": "all_reduce", "comm": 1, "bytes": 8, "count": 2, "dtype": 7},
        **{"members": [*range(ranks)], "arrivals_ns": [0] * ranks, "moves_ns": 0},
        **{"ends_ns": [0] * ranks, "site": "train.py:1 main"},
        **changes,
    }
    return operation | {"members": [member % ranks for member in operation["members"]]}


def _array(rows: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, rows)
    return buffer.getvalue()


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
