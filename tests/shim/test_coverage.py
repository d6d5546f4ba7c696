"""The views of the interception tables, on tables made up here."""

from __future__ import annotations

import argparse

import pytest

from phantora_py import coverage
from phantora_py.launch.libraries import Row, Support, Table
from sim_server.errors import UsageError

TABLE = Table(
    library="cudart",
    soname="libcudart.so.13",
    rows=(
        Row("cudaFree", Support.MODELLED, ""),
        Row("cudaMalloc", Support.MODELLED, "no a|b"),
        Row("cudaProfilerStart", Support.IGNORED, "why"),
        Row("cudaRare", Support.UNSUPPORTED, ""),
        Row("cudaRarer", Support.UNSUPPORTED, ""),
    ),
)


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    coverage.add_arguments(parser)
    return parser.parse_args(arguments)


def test_every_row_is_counted_once() -> None:
    """Partial rows are not counted as modelled."""
    assert coverage.count_rows([TABLE]) == [
        ("cudart", "libcudart.so.13", "1", "1", "1", "0", "2"),
    ]


def test_gap_is_what_torch_calls_and_the_table_does_not_support() -> None:
    """A modelled call is no gap, nor a call of a library that is not ours."""
    rare = coverage.TorchUse("libcudart.so.13", "cudaRare", "imported")
    uses = [
        rare,
        coverage.TorchUse("libcudart.so.13", "cudaMalloc", "imported"),
        coverage.TorchUse("libelse.so.1", "cudaRarer", "imported"),
    ]
    assert coverage.torch_gaps([TABLE], uses) == {"cudart": [rare]}


def test_markdown_escapes_the_cell_separator() -> None:
    """A note may hold a vertical bar."""
    assert (
        "| `cudaMalloc` | partial | no a\\|b |" in coverage.markdown([TABLE], [], {}).splitlines()
    )


def test_json_has_every_call_or_the_gaps() -> None:
    """Partial support reads so; with what torch calls, those that would stop a run."""
    every = coverage.json_rows([TABLE], [])
    assert [(row["call"], row["support"]) for row in every][1:4] == [
        ("cudaMalloc", "partial"),
        ("cudaProfilerStart", "ignored"),
        ("cudaRare", "unsupported"),
    ]
    uses = [coverage.TorchUse(TABLE.soname, name, "imported") for name in ("cudaFree", "cudaRare")]
    gaps = coverage.json_rows([TABLE], uses)
    assert gaps == [
        {"library": "cudart", "soname": TABLE.soname, "call": "cudaRare", "reached": "imported"}
    ]


def test_unknown_library_is_answered_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong name after --library is a usage error that lists the right ones."""
    monkeypatch.setattr(coverage, "shim_directory", lambda: None)
    monkeypatch.setattr(coverage, "read_tables", lambda _: (TABLE,))
    with pytest.raises(UsageError, match=r"'cudnn'; there are: cudart\."):
        coverage.run(parse("--library", "cudnn"))


def test_unrecorded_torch_is_a_usage_error() -> None:
    """Asking for a release that was not recorded names the one that was."""
    with pytest.raises(UsageError, match=r"torch 1\.0 .* 2\.15"):
        coverage.read_torch_uses("1.0")


def test_library_view_lists_its_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every row of the library is shown with its support."""
    monkeypatch.setattr(coverage, "shim_directory", lambda: None)
    monkeypatch.setattr(coverage, "read_tables", lambda _: (TABLE,))
    assert coverage.run(parse("--library", "cudart")) == 0
    shown = capsys.readouterr().out
    assert all(row.name in shown for row in TABLE.rows)
