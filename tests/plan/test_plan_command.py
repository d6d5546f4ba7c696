"""`phantora plan` as a command: what it writes and prints, and how it refuses bad input."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phantora_py.advice.confirm import program_tables
from phantora_py.cli import main
from phantora_py.plan.options import option
from phantora_py.plan.sharding_plan import from_json, to_json
from phantora_py.plan.tables import Table, read_tables

_TABLES: list[dict[str, Any]] = [
    {"name": "a", "rows": 100_001, "dim": 64, "pooling": 5, "features": ["x", "y"]},
    {"name": "b", "rows": 50_000, "dim": 128, "pooling": {"kind": "poisson", "mean": 20}},
    {
        "name": "c",
        "rows": 1_000,
        "dim": 32,
        "lookups": {"kind": "zipf", "exponent": 1.1},
        "constraints": {"sharding_types": ["row_wise"], "pooling_factors": [3.0]},
    },
]


def _file(folder: Path, tables: object = _TABLES) -> Path:
    path = folder / "tables.json"
    path.write_text(json.dumps({"tables": tables}), encoding="utf-8")
    return path


def _arguments(path: Path, *more: str) -> list[str]:
    return [
        "plan",
        "--tables",
        str(path),
        "--ranks",
        "2",
        "--cluster",
        "a100",
        "--batch",
        "512",
        *more,
    ]


def test_a_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan has every table with its shards, which cover it; the JSON has ranks and tables, and
    phases that sum to the time; the plan, given as a candidate, is found again.
    """
    plan_file = tmp_path / "plan.json"
    assert main(_arguments(_file(tmp_path), "-o", str(plan_file), "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(found["phases_ns"].values()) == pytest.approx(found["time_ns"])
    low, high = found["interval_ns"]
    assert low < found["time_ns"] < high
    assert [one["rank"] for one in found["ranks"]] == [0, 1]
    tables = {one["table"]: one for one in found["tables"]}
    assert tables["a"]["lookups"] == pytest.approx(
        2 * 512 * 10 * len(tables["a"]["ranks"]), rel=0.5
    )
    assert tables["c"]["sharding_type"] == "row_wise"
    assert found["time_ns"] <= min(found["baselines_ns"].values())
    plan = json.loads(plan_file.read_text(encoding="utf-8"))
    for spec in _TABLES:
        parameter = plan["plan"]["embedding_bag_collection"][spec["name"]]
        if parameter["sharding_spec"]:
            areas = [one["shard_sizes"] for one in parameter["sharding_spec"]["shards"]]
            assert sum(rows * columns for rows, columns in areas) == spec["rows"] * spec["dim"]
    assert main(_arguments(_file(tmp_path), "--candidate", str(plan_file), "--json")) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["baselines_ns"][str(plan_file)] == pytest.approx(found["time_ns"])


def test_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each phase, rank and table, and how much longer the rules of thumb take."""
    assert main(_arguments(_file(tmp_path), "--search", "greedy")) == 0
    printed = capsys.readouterr().out
    for words in (
        "virtual",
        "hit rate",
        "row_wise 0,1",
        "size x lookup",
        "times as long",
        "-o FILE",
    ):
        assert words in printed


def test_plans_come_back(tmp_path: Path) -> None:
    """What is written is read as the same placement."""
    tables = read_tables(_file(tmp_path))
    ways = (
        [("column_wise", (1, 0)), ("table_wise", (1,)), ("data_parallel", (0, 1))],
        [("grid_shard", (2, 3, 0, 1)), ("table_row_wise", (2, 3)), ("row_wise", (0, 1, 2, 3))],
        [("table_column_wise", (2, 3))] * 3,
    )
    for way in ways:
        options = [option(kind, ranks, 2) for kind, ranks in way]
        plan = to_json(tables, options, 2, "m")
        again = from_json(plan, tables, 2, "plan")
        assert again == options
        assert [one.kind for one in again] == [kind for kind, _ in way]
        for table, one in zip(tables, options, strict=True):
            if spec := plan["plan"]["m"][table.name]["sharding_spec"]:
                _assert_covers(spec["shards"], table)
                assert len(spec["shards"]) == len(one.ranks)


def test_programs_look_up_as_often(tmp_path: Path) -> None:
    """What a program of `--confirm` reads is the mean of any pooling, or that of constraints."""
    values = {"kind": "values", "values": [2, 4], "weights": [1, 3]}
    tables = read_tables(_file(tmp_path, [*_TABLES, _TABLES[0] | {"name": "d", "pooling": values}]))
    assert [one["pooling"] for one in program_tables(tables)] == [5, 20, 3.0, 3.5]


def _assert_covers(shards: list[dict[str, Any]], table: Table) -> None:
    """Every element is in one shard."""
    counts = np.zeros((table.rows, table.dim), dtype=int)
    for one in shards:
        (row, column), (rows, columns) = one["shard_offsets"], one["shard_sizes"]
        counts[row : row + rows, column : column + columns] += 1
    assert (counts == 1).all()


def test_names_of_equal_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A candidate whose shards the table may have under another name is that placement; where
    nodes share no rows with others, a type of one node is one of all ranks.
    """
    spec = _TABLES[0] | {"constraints": {"sharding_types": ["row_wise"]}}
    file = _file(tmp_path, [spec])
    plan = tmp_path / "plan.json"
    placed = {"sharding_type": "table_row_wise", "ranks": [0, 1]}
    plan.write_text(json.dumps({"version": 1, "plan": {"m": {"a": placed}}}), encoding="utf-8")
    assert main(_arguments(file, "--candidate", str(plan), "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["baselines_ns"][str(plan)] == pytest.approx(found["time_ns"])
    assert found["tables"][0]["sharding_type"] == "row_wise"


_WHOLE = {"sharding_types": ["table_wise"]}


def _with(**changes: Any) -> list[dict[str, Any]]:
    return [{"name": "a", "rows": 1000, "dim": 64, "pooling": 5} | changes]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([], "at least one table"),
        ([3], "must be an object with a name"),
        (_with(rows=-1), "table 0 (a): rows must be a number, at least 1, not -1"),
        (_with(rows=2.5), "rows must be a whole number"),
        (_with(dim=6), "a multiple of 4"),
        (_with(pooling=-2), "pooling must be a number"),
        (_with(pooling=0), "pooling must be above 0"),
        (_with(pooling={"kind": "gamma"}), "no pooling of kind 'gamma'"),
        (_with(optimizer="lion"), "no optimizer 'lion'"),
        (_with(type="fp4"), "no type 'fp4'"),
        (_with(size=3), "unknown field 'size'"),
        (_with(rows=10**400), "rows must be at most 1e+15"),
        (_with(pooling={"kind": "fixed", "mean": 3, "std": 1}), "fixed has no 'std'"),
        (_with(optimizer=["adam"]), "no optimizer ['adam']"),
        (_with(type=["fp32"]), "no type ['fp32']"),
        (_with(features=["x", "x"]), "features must be different"),
        (_with(lookups={"kind": "zipf"}), "table 0 (a): exponent is missing"),
        (_with(lookups={"kind": "histogram", "lookups": 5}), "(a): distinct is missing"),
        (_with(constraints={"sharding_types": ["diagonal"]}), "no sharding type 'diagonal'"),
        (
            _with(constraints={"sharding_types": ["grid_shard"]}),
            "(grid_shard) over 2 ranks, 2 on a node",
        ),
        (_with(constraints={"sharding_types": ["column_wise"]}, dim=32), "cannot be sharded"),
        ([*_with(), *_with()], "two tables named 'a'"),
        (_with(rows=10**12), "table a fits nowhere"),
        (
            [_with(name=name, rows=80_000_000, constraints=_WHOLE)[0] for name in "abcdefgh"],
            "the 8 tables of",
        ),
        ([{"name": "a", "rows": 5, "dim": 4}], "pooling is missing"),
    ],
)
def test_bad_tables_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tables: object, message: str
) -> None:
    """Exit code 2, and a sentence that names the table and what is wrong."""
    assert main(_arguments(_file(tmp_path, tables))) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"tables": 1' + "0" * 5_000 + "}", b"\xff".decode("latin-1"), "{"]
)
def test_files_that_are_no_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """Exit code 2, and the option and the file, of tables and of plans."""
    bad = tmp_path / "bad.json"
    bad.write_bytes(text.encode("latin-1"))
    for name, arguments in (
        ("--tables", _arguments(bad)),
        ("--candidate", _arguments(_file(tmp_path), "--candidate", str(bad))),
    ):
        assert main(arguments) == 2
        assert f"{name} {bad}" in " ".join(capsys.readouterr().err.split())


def _plan(**changes: Any) -> str:
    tables = {spec["name"]: {"sharding_type": "row_wise", "ranks": [0, 1]} for spec in _TABLES}
    tables["a"] |= changes
    return json.dumps({"version": 1, "plan": {"m": tables}})


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("[]", "is no sharding plan"),
        ("{", "it is not JSON"),
        ('{"version": 1, "version": 1, "plan": {}}', "an object has 'version' twice"),
        ('{"format": "another", "version": 1, "plan": {}}', "its format is 'another'"),
        ('{"version": 9, "plan": {}}', "of version 9; this phantora reads version 1"),
        ('{"plan": {}}', "of version None"),
        ('{"version": 1, "plan": {"m": {}}}', "says nothing of table a"),
        ('{"version": 1, "plan": {"m": [1]}}', "module m must be an object"),
        ('{"version": 1, "plan": {"m": {"a": 1}, "n": {"a": 1}}}', "table a in two modules"),
        (_plan().replace('"a":', '"z": {}, "a":'), "places table z, which --tables does not have"),
        (_plan(ranks=[0, 7]), "table a cannot be row_wise on 2 ranks"),
        (_plan(ranks=[0, -1]), "table a needs ranks from 0, not [0, -1]"),
        (_plan(ranks=[0, 0.5]), "table a needs ranks from 0, not [0, 0.5]"),
        (_plan(sharding_type="grid_shard", ranks=[1]), "table a cannot be grid_shard 1"),
        (_plan(sharding_type="diagonal"), "table a has no sharding type 'diagonal'"),
        (_plan(sharding_spec={"shards": [{}]}), "table a has other shards than row_wise of 100001"),
    ],
)
def test_bad_plans_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], plan: str, message: str
) -> None:
    """Exit code 2 for a candidate that is none."""
    candidate = tmp_path / "candidate.json"
    candidate.write_text(plan, encoding="utf-8")
    assert main(_arguments(_file(tmp_path), "--candidate", str(candidate))) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--batch", "0"), "--batch must be at least 1"),
        (("--memory", "-1"), "--memory must be above 0"),
        (("--memory", "0.001"), "fits nowhere"),
        (("--confirm", "-1"), "--confirm must not be below 0"),
        (("--seed", "-1"), "--seed must not be below 0"),
        (("--cluster", "nowhere"), "nowhere"),
    ],
)
def test_bad_options_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: tuple[str, str], message: str
) -> None:
    """Exit code 2 and the option."""
    assert main(_arguments(_file(tmp_path), *option)) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("engine", ["slurm", "ray"])
def test_an_engine_that_is_not_installed_is_told_first(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
) -> None:
    """Not after a search of minutes."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setattr("phantora_py.cli.plan.search", lambda *_: pytest.fail("it searches"))
    assert main(_arguments(_file(tmp_path), "--confirm", "1", "--engine", engine)) == 2
    assert f"--engine {engine} needs " in " ".join(capsys.readouterr().err.split())
