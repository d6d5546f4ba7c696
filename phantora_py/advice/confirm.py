"""Placements carried out: each is a program under `phantora run`, whose iteration is measured."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from phantora_py.data import RunData
from phantora_py.launch import fork_servers
from phantora_py.plan import program
from phantora_py.plan.tables import Table, read_tables
from phantora_py.report.summary import summarise
from phantora_py.sweep.engines import ENGINES
from phantora_py.sweep.plan import Configuration, configured
from phantora_py.sweep.results import Result, Results
from phantora_py.sweep.runner import run_all
from sim_server.errors import UsageError

_ITERATIONS = 6


def confirm(
    plans: Sequence[dict[str, Any]],
    tables: Path,
    batch: int,
    run_options: Mapping[str, Any],
    engine: str = "local",
) -> list[dict[str, Any]]:
    """Of each plan the median iteration. `engine`: one of `phantora sweep`.

    Raises: UsageError if a program does not end well.
    """
    # Other hosts see the working directory, and not what is temporary on this one.
    shared = None if engine == "local" else Path.cwd()
    temporary = tempfile.TemporaryDirectory(prefix="phantora-plan-", dir=shared)
    with fork_servers.offered(), temporary as name:
        folder = Path(name)
        listed = folder / "tables.json"
        listed.write_text(json.dumps(program_tables(read_tables(tables))), encoding="utf-8")
        options = {**run_options, "lookups": tables.resolve()}
        configurations = []
        for number, plan in enumerate(plans):
            file = folder / f"plan-{number}.json"
            file.write_text(json.dumps(plan), encoding="utf-8")
            configurations.append(_configuration(file, listed, batch, options))
        results = Results(folder)
        runs = ENGINES[engine](results, None)
        ended = run_all(configurations, results, runs, retry=False, tell=lambda *_: None)
        return [_iterations(one) for one in ended]


def _configuration(
    plan: Path, tables: Path, batch: int, options: Mapping[str, Any]
) -> Configuration:
    command = [sys.executable, program.__file__, plan, tables, batch, _ITERATIONS]
    values = {f"run.{name}": value for name, value in options.items()}
    return configured(plan.stem, [str(word) for word in command], values)


def _iterations(result: Result) -> dict[str, Any]:
    if result.exit_code or result.data is None:
        raise UsageError(
            f"--confirm: the program of {result.name} ended with {result.exit_code}: "
            f"{result.message}"
        )
    iterations = summarise(RunData(result.data))["iterations"]
    if not iterations["count"]:
        raise UsageError("the program of a plan had no iterations; this is a fault of phantora")
    return {"median_ns": iterations["median_ns"], "iterations": iterations["count"]}


def program_tables(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """As the program reads them: lookups of a sample are a number, however the file says it."""
    return [{**table.spec, "pooling": table.pooling.mean} for table in tables]
