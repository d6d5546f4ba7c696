"""Tables in host memory, behind a cache in GPU memory or not: bytes, times, memory, plans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from phantora_py.cli import main
from phantora_py.plan.host_memory import HOST_KERNELS, HostRows, host_rows
from sim_server.gpu import load_gpu
from sim_server.kernels.lookup import TableLookups
from sim_server.lookups.distributions import uniform

_GPU = load_gpu("a100")
_ROWS, _LOOKUPS, _DIM = 1_000_000, 50_000, 64
_ROW_BYTES = _DIM * 4


def _rows(load_factor: float | None, optimizer: str = "rowwise_adagrad") -> HostRows:
    work = TableLookups(uniform(_ROWS), 10_000, _LOOKUPS, _DIM, 4, optimizer)
    return host_rows(work, _ROWS, load_factor, _GPU)


def test_without_a_cache_every_lookup_crosses_the_link() -> None:
    """Rows are read for each lookup; each different one is read and written back once."""
    found, link = _rows(None), _GPU.copies["pinned_bytes_per_s"] / 1e9
    different = uniform(_ROWS).distinct(_LOOKUPS)
    assert found.hit_rate is None
    assert found.forward_ns == pytest.approx(_LOOKUPS * _ROW_BYTES / link)
    assert found.backward_ns == pytest.approx(different * _ROW_BYTES / link)
    assert found.link_bytes == pytest.approx((_LOOKUPS + 2 * different) * _ROW_BYTES)
    assert (found.gpu_bytes, found.host_bytes) == (_ROWS * 4, _ROWS * _ROW_BYTES)


def test_a_cache_holds_its_share_of_rows_that_are_as_likely() -> None:
    """What it lacks is copied, as much goes back, and the backward pass copies nothing."""
    for share in (0.1, 0.5, 0.9):
        found = _rows(share)
        assert found.hit_rate == pytest.approx(share, abs=0.02)
        missed = _LOOKUPS * (1 - share) * _ROW_BYTES
        assert found.link_bytes == pytest.approx(2 * missed, rel=0.25)
        assert found.backward_ns == 0
        assert found.gpu_bytes == _ROWS * (4 + 4 + share * (_ROW_BYTES + 16))
    assert _rows(1.0).forward_ns < 1e-3 * _rows(None).forward_ns


def test_what_an_optimizer_keeps_of_every_element_is_on_the_host() -> None:
    """Adam's state is not cached: the backward pass reads and writes it over the link."""
    rowwise, adam = _rows(0.5), _rows(0.5, "adam")
    assert adam.host_bytes == 3 * rowwise.host_bytes
    assert adam.gpu_bytes == rowwise.gpu_bytes - 4 * _ROWS
    assert adam.backward_ns > 0 == rowwise.backward_ns


def _table(**constraints: Any) -> dict[str, Any]:
    lookups = {"kind": "zipf", "exponent": 1.05}
    spec = {"name": "a", "rows": 400_000_000, "dim": 128, "pooling": 10, "lookups": lookups}
    return spec | {"constraints": constraints}


def _plan(folder: Path, table: dict[str, Any], *more: str) -> int:
    path = folder / "tables.json"
    path.write_text(json.dumps([table, _SMALL]), encoding="utf-8")
    options = ["--ranks", "2", "--cluster", "a100", "--batch", "512", "--search", "beam"]
    return main(["plan", "--tables", str(path), *options, *more])


_SMALL = {"name": "b", "rows": 1000, "dim": 64, "pooling": 3}


def test_a_plan_with_a_table_on_the_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table that fits no GPU is placed behind a cache where its constraints allow that, and the
    other one is not. The plan says so in TorchRec's fields, and comes back as a candidate.
    """
    kernels = ["fused", *HOST_KERNELS]
    table = _table(compute_kernels=kernels, cache_params={"load_factor": 0.1})
    assert _plan(tmp_path, _table()) == 2
    assert "table a fits nowhere" in capsys.readouterr().err
    file = tmp_path / "plan.json"
    assert _plan(tmp_path, table, "-o", str(file), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    large, small = found["tables"]
    assert (large["compute_kernel"], small["compute_kernel"] in ("fused", "dense")) == (
        "fused_uvm_caching",
        True,
    )
    assert 0.5 < large["cache_hit_rate"] < 1
    assert large["link_bytes"] > 0 == small["link_bytes"]
    assert sum(one["host_memory_bytes"] for one in found["ranks"]) == 400_000_000 * 512
    assert found["tier"] == "assumed"
    placed = json.loads(file.read_text(encoding="utf-8"))["plan"]["embedding_bag_collection"]["a"]
    assert placed["compute_kernel"] == "fused_uvm_caching"
    assert placed["cache_params"] == {"load_factor": 0.1}
    assert _plan(tmp_path, table, "--candidate", str(file), "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert again["baselines_ns"][str(file)] == pytest.approx(found["time_ns"])
    assert _plan(tmp_path, table | {"constraints": {"compute_kernels": ["fused_uvm"]}}) == 0
    printed = capsys.readouterr().out
    assert "fused_uvm" in printed
    assert "on the host" in printed


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ({"compute_kernels": "fused"}, "compute_kernels must be a list"),
        ({"compute_kernels": ["quant_uvm"]}, "no compute kernel 'quant_uvm' is modelled"),
        ({"compute_kernels": ["dense"], "sharding_types": ["row_wise"]}, "2 on a node, by dense"),
        ({"cache_params": 0.2}, "cache_params must have a load_factor alone"),
        ({"cache_params": {"load_factor": 0.2, "algorithm": "LFU"}}, "a load_factor alone"),
        ({"cache_params": {"load_factor": 0}}, "must be above 0 and at most 1, not 0"),
        ({"cache_params": {"load_factor": 1.5}}, "must be above 0 and at most 1, not 1.5"),
    ],
)
def test_bad_constraints_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], constraints: dict[str, Any], message: str
) -> None:
    """Exit code 2, and the table."""
    assert _plan(tmp_path, _table(**constraints)) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert message in error
    assert "(a)" in error or "table a" in error


def test_plans_by_other_kernels_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kernel that is not modelled, one that the constraints refuse, and another cache."""
    table = _table(compute_kernels=["fused_uvm_caching"])
    for changes, message in (
        ({"compute_kernel": "key_value"}, "table_wise by 'key_value', which is not modelled"),
        ({"compute_kernel": "dense"}, "table_wise by 'dense', which is not modelled"),
        ({"compute_kernel": "fused_uvm"}, "table a cannot be table_wise 0 fused_uvm on 2 ranks"),
        (
            {"compute_kernel": "fused_uvm_caching", "cache_params": {"load_factor": 0.5}},
            "in --tables have {'load_factor': 0.2}",
        ),
    ):
        placed = {"sharding_type": "table_wise", "ranks": [0]}
        plan = tmp_path / "plan.json"
        content = {"a": placed | changes, "b": placed}
        plan.write_text(json.dumps({"version": 1, "plan": {"m": content}}), encoding="utf-8")
        assert _plan(tmp_path, table, "--candidate", str(plan)) == 2
        assert message in " ".join(capsys.readouterr().err.split())


def test_programs_have_no_tables_on_the_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--confirm` says so before the search."""
    table = _table(compute_kernels=["fused_uvm_caching"])
    assert _plan(tmp_path, table, "--confirm", "1") == 2
    assert "--confirm: table a may be in host memory" in " ".join(capsys.readouterr().err.split())
