"""Traces and benchmarks that are damaged, foreign or incomplete are refused by name."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from phantora_py.replay.container import Benchmark, new_head, read_benchmark, write_benchmark
from phantora_py.replay.observed import Tensor, read_traces
from phantora_py.replay.operators import is_composite
from sim_server.errors import UsageError

WHOLE: dict[str, Any] = {"schema": "1.1.1-chakra.0.0.4", "nodes": [], "finish_ts": 1}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": "9.9"}, "rank-0.json has the schema '9.9'"),
        ({"nodes": [{"id": 7}]}, "rank-0.json is damaged: node 7"),
    ],
)
def test_foreign_traces_are_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    (tmp_path / "rank-0.json").write_text(json.dumps(WHOLE | change))
    with pytest.raises(UsageError, match=said):
        read_traces(tmp_path)


def test_cut_and_missing_traces_are_refused(tmp_path: Path) -> None:
    text = json.dumps(WHOLE)
    (tmp_path / "rank-1.json").write_text(text)
    with pytest.raises(UsageError, match="lacks the trace of rank 0, of 2 ranks"):
        read_traces(tmp_path)
    (tmp_path / "rank-0.json").write_text(text[:-5])
    with pytest.raises(UsageError, match=r"rank-0\.json is damaged: it broke off"):
        read_traces(tmp_path)


def test_benchmarks_of_other_versions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.bench"
    rank: dict[str, Any] = {"schemas": [], "tensors": [], "versions": [], "events": []}
    write_benchmark(Benchmark(new_head(1, {"0": [0]}), [rank]), path)
    assert read_benchmark(path).ranks == [rank]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("benchmark.json", json.dumps(new_head(1, {}) | {"version": 2}))
    with pytest.raises(UsageError, match="has version 2 of the format; version 1 is read"):
        read_benchmark(path)
    path.write_bytes(b"PK")
    with pytest.raises(UsageError, match="is no benchmark, or is damaged"):
        read_benchmark(path)


def test_a_storage_holds_its_last_element() -> None:
    tensor = Tensor(1, 3, 4, "cpu", "float", (2, 5), (10, 1))
    assert tensor.extent_bytes == (3 + 10 + 4 + 1) * 4


@pytest.mark.torch
def test_an_operator_with_a_kernel_of_its_own_is_no_composite() -> None:
    """RMS norm has other operators as a fallback, which GPUs do not use."""
    import torch  # noqa: PLC0415

    assert is_composite(str(torch.ops.aten.rms_norm.default._schema))
    assert not is_composite(str(torch.ops.aten._fused_rms_norm.default._schema))
